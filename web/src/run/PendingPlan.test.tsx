import { expect, it } from "vitest";
import { header } from "../testing/fixtures";
import { screen, show } from "../testing/render";
import { PendingPlan } from "./PendingPlan";

const PENDING = header({ runId: "r-pending", status: "PENDING", statusRaw: "PENDING", startedAt: null });

it("draws the plan of a run that has not started, when the document is known", async () => {
  await show(<PendingPlan header={PENDING} />, {
    answers: { RunPlan: { run: { planDocument: { steps: [{ stepId: "load" }, { stepId: "test" }] } } } },
  });
  expect(await screen.findByText("The run has not started. These are the steps of its plan.")).toBeDefined();
  const node = await screen.findByRole("button", { name: /^test/ }, { timeout: 10_000 });
  expect(node.textContent?.trim(), "no duration").toBe("test");
});

it("lists the steps of the plan with what each waits for, where a graph does not fit", async () => {
  const steps = [
    { stepId: "load", name: "Load orders" },
    { stepId: "test", dependsOn: ["load"] },
  ];
  await show(<PendingPlan header={{ ...PENDING, runId: "r-listed" }} listed />, {
    answers: { RunPlan: { run: { planDocument: { steps } } } },
  });
  const list = await screen.findByRole("list");
  expect([...list.children].map(({ textContent }) => textContent)).toEqual(["Load orders", "test after Load orders"]);
});

it("says that the steps are not known yet, or that none has run", async () => {
  const first = await show(<PendingPlan header={{ ...PENDING, runId: "r-unknown" }} />, {
    answers: { RunPlan: { run: { planDocument: null } } },
  });
  expect(await screen.findByText(/steps appear when the plan is read/)).toBeDefined();
  first.unmount();
  await show(<PendingPlan header={{ ...PENDING, status: "CANCELLED" }} />);
  expect(screen.getByText(/ended before/)).toBeDefined();
});
