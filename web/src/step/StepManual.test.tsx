import { expect, it } from "vitest";
import type { Task } from "../actions/useAvailability";
import { attempt, available } from "../testing/fixtures";
import { screen, show, vi } from "../testing/render";
import { PanelHandle } from "./PanelHandle";
import { Attempts } from "./StepAttempts";
import { StepManual } from "./StepManual";

const TASK = {
  runId: "7f3a",
  stepId: "sign_off",
  since: "2026-11-21T03:00:00Z",
  deadline: "2026-11-21T04:00:00Z",
  instructions: "Compare the totals.",
  evidence: ["invoice"],
  action: available("COMPLETE_MANUAL_STEP", {
    outcome: "REFUSED",
    code: "SOD_VIOLATION",
    reason: "You started this run.",
  }),
} as unknown as Task;

it("shows the instructions, the deadline, and why the viewer may not complete the step", async () => {
  await show(<StepManual stepId="sign_off" />, { actions: { task: () => TASK } });
  const words = screen.getByTestId("manual").textContent;
  for (const word of ["Compare the totals.", "Evidence: invoice", "You started this run.", "04:00:00"])
    expect(words).toContain(word);
});

it("marks the attempt that is shown, and a failure that a later attempt superseded", async () => {
  const choose = vi.fn<(id: number) => void>();
  const attempts = [attempt(), attempt({ logicalAttemptId: 2, status: "RUNNING", statusRaw: "RUNNING" })];
  const { user } = await show(<Attempts attempts={attempts} shown={2} latest={2} choose={choose} />);
  const first = screen.getByRole("button", { name: /First attempt/, pressed: false });
  expect(screen.getByRole("button", { name: /Retry #1/, pressed: true })).toBeDefined();
  expect(first.title).toBe("superseded by a later attempt");
  await user.click(first);
  expect(choose).toHaveBeenCalledExactlyOnceWith(1);
});

it("changes the width of the panel by keys, within its limits", async () => {
  const change = vi.fn<(share: number) => void>();
  const { user } = await show(<PanelHandle share={40} change={change} />);
  const handle = screen.getByRole("separator", { name: "Width of the step" });
  expect([handle.ariaValueNow ?? handle.getAttribute("aria-valuenow")]).toEqual(["40"]);
  handle.focus();
  await user.keyboard("{ArrowLeft}{ArrowRight}{Home}{End}{Enter}a");
  expect(change.mock.calls.flat()).toEqual([42, 38, 25, 70, 40]);
});
