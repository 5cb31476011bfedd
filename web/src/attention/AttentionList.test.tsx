import { expect, it } from "vitest";
import { screen, show } from "../testing/render";
import type { AttentionItem } from "./state";
import { AttentionList } from "./AttentionList";

const NOW = Date.parse("2026-11-22T03:00:00Z");
const ITEM: AttentionItem = {
  kind: "FAILED_WAITING",
  runId: "7f3a0000",
  projectId: "shop",
  environmentId: "prod",
  planId: "nightly",
  planVersion: "1.4",
  stepId: "stg_orders",
  stepName: null,
  since: "2026-11-22T02:50:00Z",
  deadline: "2026-11-22T03:01:30Z",
  expectedBy: null,
  code: "DBT_TEST_FAILED",
  message: "Got 3 results",
  heldSteps: 150,
  failedSteps: 1,
  approvals: null,
  approvalsRequired: null,
  actions: ["RETRY_STEP", "CANCEL"],
};

it("says what failed, how much waits, how long is left and what one may do", async () => {
  await show(<AttentionList items={[ITEM]} now={NOW} />);
  const item = screen.getByRole("listitem");
  for (const words of ["stg_orders: DBT_TEST_FAILED", "150 steps wait", "1 m 30 s left", "then the run fails"]) {
    expect(item.textContent).toContain(words);
  }
  expect(item.textContent).toContain("You can: Retry step, Cancel run");
  expect(item.dataset["urgency"], "the last two minutes").toBe("last");
  expect(screen.getByRole("link").getAttribute("href")).toBe("/runs/7f3a0000?step=stg_orders");
});

it("says what waits for others, and by how much a run is late", async () => {
  const approval = { kind: "APPROVAL", stepId: null, code: null, approvals: 0, approvalsRequired: 2 } as const;
  const late = { kind: "LATE", runId: "l1", stepId: null, code: null, deadline: null } as const;
  await show(
    <AttentionList
      items={[
        { ...ITEM, ...approval, deadline: "2026-11-23T03:00:00Z", actions: [] },
        { ...ITEM, ...late, expectedBy: "2026-11-22T02:48:00Z" },
      ]}
      now={NOW}
    />,
  );
  const [first, second] = screen.getAllByRole("listitem");
  expect(first?.textContent).toContain("0 of 2 approvals");
  expect(first?.textContent).toContain("Waits for someone else");
  expect(first?.dataset["urgency"]).toBeUndefined();
  expect(second?.textContent).toContain("late by 12 m");
});
