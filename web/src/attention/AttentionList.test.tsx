import { expect, it } from "vitest";
import { of, screen, show, vi } from "../testing/render";
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
  logicalAttemptId: 1,
  stepName: null,
  since: "2026-11-22T02:50:00Z",
  deadline: "2026-11-22T03:01:30Z",
  expectedBy: null,
  code: "DBT_TEST_FAILED",
  message: "Got 3 results",
  heldSteps: 150,
  blockedSteps: 9,
  failedSteps: 1,
  approvals: null,
  approvalsRequired: null,
  actions: ["RETRY_STEP", "SKIP_STEP", "CANCEL"],
  whoCould: [],
  stuck: false,
};

it("says what failed, how much waits, how long is left and what one may do", async () => {
  await show(<AttentionList items={[ITEM]} now={NOW} />);
  const item = screen.getByRole("listitem");
  for (const words of [
    "stg_orders: DBT_TEST_FAILED",
    "150 steps wait, and 9 of them need this one",
    "1 m 30 s left",
    "then the run fails",
  ]) {
    expect(item.textContent).toContain(words);
  }
  expect(screen.getAllByRole("button").map((button) => button.textContent)).toEqual(["Retry…", "Skip…", "Cancel run…"]);
  expect(item.dataset["urgency"], "the last two minutes").toBe("last");
  expect(screen.getByRole("link").getAttribute("href")).toBe("/runs/7f3a0000?step=stg_orders");
});

it("says what waits for others, and by how much a run is late", async () => {
  const approval = { kind: "APPROVAL", stepId: null, code: null, approvals: 0, approvalsRequired: 2 } as const;
  const late = { kind: "LATE", runId: "l1", stepId: null, code: null, deadline: null } as const;
  const { user } = await show(
    <AttentionList
      items={[
        { ...ITEM, ...approval, deadline: "2026-11-23T03:00:00Z", actions: [], whoCould: ["dev-admin", "ben"] },
        { ...ITEM, ...late, expectedBy: "2026-11-22T02:48:00Z" },
      ]}
      now={NOW}
    />,
  );
  // The viewer can act on the late run only.
  expect(screen.getAllByRole("listitem")).toHaveLength(1);
  await user.click(
    screen.getByRole("button", { name: "Show 1 that waits for dev-admin, ben, the first ends in 1 d 0 h" }),
  );
  const [second, first] = screen.getAllByRole("listitem");
  expect(first?.textContent).toContain("0 of 2 approvals");
  expect(first?.textContent).toContain("Waits for dev-admin, ben");
  expect(first?.dataset["urgency"]).toBeUndefined();
  expect(second?.textContent).toContain("late by 12 m 0 slonger than 9 of 10 earlier runs");
});

it("says that a late run missed the deadline of its plan", async () => {
  const late = { kind: "LATE", runId: "l1", stepId: null, code: "RUN_LATE", message: null, deadline: null } as const;
  await show(<AttentionList items={[{ ...ITEM, ...late, expectedBy: "2026-11-22T02:48:00Z" }]} now={NOW} />);
  expect(screen.getByRole("listitem").textContent).toContain("late by 12 m 0 smissed its deadline");
});

it("names whom to ask for the retry when one may only cancel, and says when nobody may", async () => {
  const five = ["ana", "ben", "cem", "dora", "eva"];
  await show(
    <AttentionList
      items={[
        { ...ITEM, actions: ["CANCEL"], whoCould: five },
        { ...ITEM, kind: "APPROVAL", runId: "a1", stepId: null, code: null, actions: [], whoCould: [] },
      ]}
      now={NOW}
    />,
  );
  const [first, second] = screen.getAllByRole("listitem");
  expect(first?.textContent).toContain("To retry it, ask ana, ben, cem and 2 more");
  expect(second?.textContent).toContain("Nobody can approve it");
});

it("keeps in sight what ends soon, also when only others can end it, and says when the first of the rest ends", async () => {
  const other: AttentionItem = { ...ITEM, actions: [], whoCould: ["dev-engineer"] };
  const approval = { kind: "APPROVAL", stepId: null, code: null, approvals: 1, approvalsRequired: 2 } as const;
  await show(
    <AttentionList
      items={[
        { ...other, runId: "n1", ...approval, whoCould: [], stuck: true, deadline: "2026-11-23T02:00:00Z" },
        { ...other, runId: "l1", deadline: "2026-11-22T03:20:00Z" },
        { ...other, runId: "s1" },
      ]}
      now={NOW}
    />,
  );
  expect(shown()).toEqual(["s1", "n1"]);
  expect(screen.getByRole("button").textContent).toBe("Show 1 that waits for dev-engineer, the first ends in 20 m 0 s");
});

it("says to those who can approve that the others are too few", async () => {
  const approval = { kind: "APPROVAL", stepId: null, code: null, approvals: 0, approvalsRequired: 2 } as const;
  await show(<AttentionList items={[{ ...ITEM, ...approval, actions: ["APPROVE"], stuck: true }]} now={NOW} />);
  expect(screen.getByRole("listitem").textContent).toContain("Only you can approve, which is not enough");
});

it("shows four items, and the others on demand", async () => {
  const items = [1, 2, 3, 4, 5, 6].map((n) => ({ ...ITEM, runId: `r${n}` }));
  const { user } = await show(<AttentionList items={items} now={NOW} />);
  expect(screen.getAllByRole("listitem")).toHaveLength(4);
  await user.click(screen.getByRole("button", { name: "Show 2 more: 2 failed, the first ends in 1 m 30 s" }));
  expect(screen.getAllByRole("listitem")).toHaveLength(6);
});

it("opens the dialog of a button in place, for the run of the item", async () => {
  const { user, sent, path } = await show(<AttentionList items={[ITEM]} now={NOW} />, { path: "/" });
  await user.click(screen.getByRole("button", { name: "Retry… nightly 7f3a0000, stg_orders" }));
  expect((await screen.findByRole("dialog", {}, { timeout: 30_000 })).textContent).toContain(
    "Retry step nightly 7f3a0000, stg_orders",
  );
  await vi.waitFor(() => expect(of(sent, "RunOpening")).toEqual([{ runId: "7f3a0000" }]));
  expect(path()).toBe("/");
});

function shown(): (string | undefined)[] {
  return screen.getAllByRole("listitem").map((item) => item.dataset["run"]);
}

it("shows first what the viewer can act on, and keeps the order of time among the rest", async () => {
  const others = ["o1", "o2", "o3", "o4"].map((runId): AttentionItem => ({ ...ITEM, runId, actions: [] }));
  const cancel: AttentionItem = { ...ITEM, runId: "c1", actions: ["CANCEL"] };
  const manual: AttentionItem = { ...ITEM, runId: "m1", kind: "MANUAL_TASK", actions: ["COMPLETE_MANUAL_STEP"] };
  const { user } = await show(<AttentionList items={[...others, cancel, manual]} now={NOW} />);
  expect(shown()).toEqual(["m1", "c1", "o1", "o2"]);
  await user.click(screen.getByRole("button", { name: /^Show 2 more/ }));
  expect(shown()).toEqual(["m1", "c1", "o1", "o2", "o3", "o4"]);
});

it("puts production and the largest loss first among what ends at about the same time", async () => {
  const at = (minutes: number, over: Partial<AttentionItem>): AttentionItem => ({
    ...ITEM,
    runId: `run-${minutes}`,
    deadline: new Date(NOW + minutes * 60_000).toISOString(),
    ...over,
  });
  await show(
    <AttentionList
      items={[
        at(9, { planId: "soon", environmentId: "dev", heldSteps: 0 }),
        at(55, { planId: "toy", environmentId: "dev", heldSteps: 900 }),
        at(56, { planId: "small", heldSteps: 1 }),
        at(58, { planId: "warehouse", heldSteps: 1900 }),
      ]}
      now={NOW}
    />,
  );
  const order = screen.getAllByRole("listitem").map((item) => /soon|toy|small|warehouse/.exec(item.textContent)?.[0]);
  expect(order).toEqual(["soon", "warehouse", "small", "toy"]);
});
