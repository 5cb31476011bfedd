import { expect, it } from "vitest";
import { ANSWERS, RUN, signal } from "../testing/fixtures";
import { of, screen, show, vi } from "../testing/render";
import { SeveralDialog } from "./SeveralDialog";

const preview = ({ action }: { action: { signal: { signal: { skipStep: { stepId: string } } } } }) => ({
  preview: {
    ...ANSWERS.data.preview,
    ...(action.signal.signal.skipStep.stepId === "src_orders"
      ? { outcome: "REFUSED", code: "STEP_NOT_FAILED", reason: "It succeeded." }
      : {}),
  },
});

it("previews each step, leaves out refused ones, and sends the others one after another", async () => {
  const wire = { ...signal({ actor: "ben" }), receivedAt: "2026-11-21T03:12:07Z", deliveredAt: null, appliedAt: null };
  const { user, sent } = await show(
    <SeveralDialog
      action="SKIP_STEP"
      runId={RUN}
      stepIds={["retried", "stg_orders", "src_orders"]}
      onClose={() => {}}
    />,
    { answers: { Preview: preview, SignalRun: { signalRun: { signal: wire } } } },
  );
  await vi.waitFor(() => expect(screen.getByTestId("several").textContent).toContain("2 of 3 steps"));
  expect(document.querySelector('[data-step="src_orders"]')?.textContent).toContain("Left out");
  await user.type(screen.getByLabelText(/^One reason for all/), "known");
  await user.click(screen.getByRole("button", { name: "Skip 2 steps" }));
  await vi.waitFor(() => expect(screen.getByTestId("several").textContent).toBe("2 of 3 steps sent."));
  const steps = of(sent, "SignalRun").map(
    ({ input }) => (input as { signal: { skipStep: { stepId: string; reason: string } } }).signal.skipStep,
  );
  expect(steps).toEqual([
    { stepId: "retried", reason: "known" },
    { stepId: "stg_orders", reason: "known" },
  ]);
  expect(screen.getByRole("button", { name: "Close" })).toBeDefined();
});
