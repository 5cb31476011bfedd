import { act } from "@testing-library/react";
import { expect, it } from "vitest";
import { useRunActions } from "../actions/context";
import { available, header, NOW, RUN, SEQ, store } from "../testing/fixtures";
import { of, screen, show, vi } from "../testing/render";
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

it("asks again after a change that is not in the log, such as an approval that is not the last", async () => {
  const pending = header({ status: "PENDING", statusRaw: "PENDING", startedAt: null });
  const run = store(pending);
  const actions = { runSeq: SEQ, actions: [available("APPROVE")], cause: null, queue: null, approval: null };
  const { sent } = await show(
    <RunActionsProvider runId={RUN} chosen={null}>
      <Menu />
    </RunActionsProvider>,
    { run, answers: { Actions: { run: actions }, Runs: { runs: { edges: [] } } } },
  );
  await vi.waitFor(() => expect(of(sent, "Actions")).toHaveLength(1));
  const frame = {
    sync: "LIVE",
    reason: null,
    epoch: "1",
    lagMs: 0,
    reset: false,
    snapshot: null,
    delta: null,
  } as const;
  act(() => {
    run.receive({ ...frame, runSeq: SEQ, headSeq: SEQ, asOf: NOW + 1, opsRev: pending.opsRev + 1 });
  });
  await vi.waitFor(() => expect(of(sent, "Actions")).toHaveLength(2), 5_000);
});
