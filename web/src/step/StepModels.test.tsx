import { expect, it } from "vitest";
import { ANSWERS, RUN } from "../testing/fixtures";
import { of, screen, show, vi } from "../testing/render";
import StepModels from "./StepModels";
import type { StepMove } from "./stepPlace";

it("lists dbt's nodes with their message and SQL, and filters by status on the server", async () => {
  const open = vi.fn<(to: StepMove) => void>();
  const { user, sent } = await show(
    <StepModels runId={RUN} stepId="stg_orders" attempt={2} statuses={["fail"]} sql={null} open={open} />,
    { answers: { StepNodes: { run: ANSWERS.data["run"] } } },
  );
  expect(await screen.findByText("not_null_stg_orders_id")).toBeDefined();
  expect(of(sent, "StepNodes")[0]).toMatchObject({ stepId: "stg_orders", attempt: 2, status: ["fail"], first: 50 });
  expect(screen.getByRole("button", { name: "Failed 3", pressed: true })).toBeDefined();
  expect(screen.getByText(/^Got 3 results/)).toBeDefined();
  expect(screen.getByLabelText("Compiled SQL of not_null_stg_orders_id").textContent).toContain("where id is null");
  await user.click(screen.getByRole("button", { name: "Passed 12" }));
  expect(open).toHaveBeenLastCalledWith({ nodes: ["pass"], sql: undefined });
  await user.click(screen.getByRole("button", { name: "All" }));
  expect(open).toHaveBeenLastCalledWith({ nodes: undefined, sql: undefined });
});
