import { expect, it } from "vitest";
import { useRunActions } from "../actions/context";
import { available, header, RUN, SEQ, store } from "../testing/fixtures";
import { screen, show } from "../testing/render";
import { RunActionsProvider } from "./RunActionsProvider";

function Menu() {
  return <button onClick={useRunActions().menu}>Actions</button>;
}

it("offers what can be done about the failed step when no step is chosen", async () => {
  const cause = { stepId: "stg_orders", actions: [available("RETRY_STEP"), available("SKIP_STEP")] };
  const { user } = await show(
    <RunActionsProvider runId={RUN} chosen={null}>
      <Menu />
    </RunActionsProvider>,
    {
      run: store(header()),
      answers: {
        Actions: { run: { runSeq: SEQ, actions: [available("PAUSE")], cause, queue: null, approval: null } },
        Runs: { runs: { edges: [] } },
      },
    },
  );
  await user.click(screen.getByRole("button", { name: "Actions" }));
  expect(await screen.findByRole("button", { name: "Skip step…" }, { timeout: 5_000 })).toBeDefined();
  expect(screen.getByRole("button", { name: "Retry step…" })).toBeDefined();
});
