import { fireEvent } from "@testing-library/react";
import { expect, it } from "vitest";
import type { Availability } from "../api/model";
import { ANSWERS, available, header, RUN, SEQ, signal, store } from "../testing/fixtures";
import { of, refused, screen, show, vi } from "../testing/render";
import { ConfirmDialog } from "./ConfirmDialog";
import { EMPTY_DRAFT } from "./draft";
import { newIntent, type Sendable } from "./intent";

const PREVIEW = { preview: ANSWERS.data.preview };

async function confirm(
  availability: Availability & { action: Sendable },
  stepId: string | null,
  answers: Record<string, unknown> = {},
) {
  const intent = newIntent(availability.action, RUN, stepId, stepId === null ? null : 2);
  const onDone = vi.fn<() => void>();
  const map = new Map([[availability.action, availability] as const]);
  const view = await show(
    <ConfirmDialog kept={{ intent, draft: EMPTY_DRAFT, sent: null }} onClose={() => {}} onDone={onDone} />,
    {
      run: store(header()),
      actions: { run: map, step: () => map },
      answers: { Preview: PREVIEW, SignalRun: { signalRun: { signal: wire() } }, ...answers },
    },
  );
  return { ...view, intent, onDone };
}

/** A receipt as the API writes it; of another actor, because receipts outlive a test. */
function wire() {
  return { ...signal({ actor: "ben" }), receivedAt: "2026-11-21T03:12:07Z", deliveredAt: null, appliedAt: null };
}

it("shows the preview, and sends the signal with the reason, its id and the position that was read", async () => {
  const { user, sent, intent, onDone } = await confirm(available("RETRY_STEP", { reasonRequired: true }), "stg_orders");
  expect(await screen.findByText(`If sent now (as of seq ${SEQ}):`)).toBeDefined();
  expect(screen.getByTestId("preview").textContent).toContain("These 2 steps will not start: orders, customers.");
  const send = screen.getByRole<HTMLButtonElement>("button", { name: "Retry step" });
  expect(send.disabled, "without a reason").toBe(true);
  await user.type(screen.getByLabelText(/^Reason/), "the file is there now");
  await user.click(send);
  await vi.waitFor(() => expect(onDone).toHaveBeenCalledOnce());
  expect(of(sent, "SignalRun")).toEqual([
    {
      input: {
        runId: RUN,
        signalId: intent.signalId,
        expectedRunSeq: SEQ,
        signal: {
          retryStep: {
            stepId: "stg_orders",
            reason: "the file is there now",
            force: false,
            expectedLogicalAttemptId: 2,
          },
        },
      },
    },
  ]);
});

it("asks for the run's short id before a final action, and Enter alone sends nothing", async () => {
  const { user, sent } = await confirm(available("CANCEL", { strength: "STRONG" }), null, {
    CancelRun: { cancelRun: { signal: wire() } },
  });
  expect(screen.getByRole("alertdialog", { name: /^Cancel run nightly in PROD/ })).toBeDefined();
  expect(document.activeElement, "the focus begins on the way back").toBe(
    screen.getByRole("button", { name: "Keep running" }),
  );
  await screen.findByTestId("preview");
  await user.type(screen.getByLabelText(/^Type 01KAHW3V to confirm/), "01KAHW3V{Enter}");
  expect(of(sent, "CancelRun")).toEqual([]);
  await user.keyboard("{Control>}{Enter}{/Control}");
  await vi.waitFor(() => expect(of(sent, "CancelRun")).toHaveLength(1));
});

it("keeps the input when the run has moved, and asks to read again", async () => {
  const moved = refused("RUN_MOVED", "The run has moved.", { current: { runSeq: SEQ + 3 } });
  const { user, sent } = await confirm(available("PAUSE", { strength: "REVERSIBLE" }), null, { SignalRun: moved });
  await screen.findByTestId("preview");
  await user.type(screen.getByLabelText(/^Reason/), "late file");
  await user.click(screen.getByRole("button", { name: "Pause" }));
  expect(await screen.findByRole("button", { name: "Review again" })).toBeDefined();
  expect(screen.getByTestId("moved").textContent).toContain("Nothing was sent.");
  expect(screen.getByLabelText<HTMLInputElement>(/^Reason/).value).toBe("late file");
  await user.click(screen.getByLabelText(/^Reason/));
  await user.keyboard("{Control>}{Enter}{/Control}");
  expect(of(sent, "SignalRun"), "nothing is sent before it is read again").toHaveLength(1);
});

it("sends nothing without a preview, except actions that stop the run", async () => {
  const broken = { Preview: refused("INTERNAL", "no preview") };
  const first = await confirm(available("RESUME"), null, broken);
  expect((await screen.findByText(/cannot be sent/)).textContent).toContain("no preview");
  expect(screen.getByRole<HTMLButtonElement>("button", { name: "Resume" }).disabled).toBe(true);
  first.unmount();
  await confirm(available("PAUSE"), null, broken);
  await screen.findByText(/Stopping is still allowed/);
  expect(screen.getByRole<HTMLButtonElement>("button", { name: "Pause" }).disabled).toBe(false);
});

it("says one truth while offline, and sends nothing", async () => {
  const run = store(header());
  run.link(false);
  const map = new Map([["PAUSE", available("PAUSE", { strength: "REVERSIBLE" })] as const]);
  await show(
    <ConfirmDialog
      kept={{ intent: newIntent("PAUSE", RUN, null, null), draft: EMPTY_DRAFT, sent: null }}
      onClose={() => {}}
      onDone={() => {}}
    />,
    { run, actions: { run: map, step: () => map }, answers: { Preview: refused("NETWORK", "dvt did not answer.") } },
  );
  const dialog = screen.getByRole("dialog");
  await vi.waitFor(() => expect(dialog.textContent).toContain("Nothing can be sent: there is no connection to dvt."));
  expect(dialog.textContent).not.toMatch(/still allowed|no longer possible|did not answer|Checking/);
  expect(screen.getByRole<HTMLButtonElement>("button", { name: "Pause" }).disabled).toBe(true);
});

it("says only why, and who can, when the action was never possible", async () => {
  const denied = available("RETRY_STEP", {
    outcome: "REFUSED",
    code: "FORBIDDEN",
    reason: "You need the ENGINEER role on shop / prod to retry a step.",
    requiredRole: "ENGINEER",
    whoCould: ["dev-admin"],
  });
  const { sent } = await confirm(denied, "stg_orders");
  const dialog = screen.getByRole("dialog", { name: "Retry step: not available to you" });
  expect(dialog.textContent).toContain(
    "You need the Engineer role on shop / prod to retry a step. Who can do this: dev-admin.",
  );
  expect(dialog.textContent).not.toMatch(/seq|no longer|FORBIDDEN/);
  expect(screen.queryByLabelText(/^Reason/)).toBeNull();
  expect(of(sent, "Preview"), "nothing is to be previewed").toEqual([]);
});

it("says what a pause does to the retry window, and not again what the failure holds", async () => {
  await confirm(available("PAUSE"), null);
  const preview = await screen.findByTestId("preview");
  expect(preview.textContent).toContain("A failed step already holds 14 steps");
  expect(preview.textContent).not.toContain("will not start");
});

it("preselects everything for a rerun of a run that succeeded, and says why the other choice is off", async () => {
  const counts = { total: 3, pending: 0, running: 0, success: 3, failed: 0, skipped: 0, stopped: 0, kept: 0 };
  const run = store(header({ status: "COMPLETED", stepCounts: counts }));
  const map = new Map([["RERUN", available("RERUN")] as const]);
  const { sent, user } = await show(
    <ConfirmDialog
      kept={{ intent: newIntent("RERUN", `${RUN}-own`, null, null), draft: EMPTY_DRAFT, sent: null }}
      onClose={() => {}}
      onDone={() => {}}
    />,
    {
      run,
      actions: { run: map, step: () => map },
      answers: { Preview: PREVIEW, RerunRun: {}, RunParams: { run: { request: { params: { day: 0 } } } } },
    },
  );
  expect(screen.getByRole<HTMLInputElement>("radio", { name: "Everything, from the start" }).checked).toBe(true);
  const off = screen.getByRole<HTMLInputElement>("radio", { name: /Every step of this run succeeded/ });
  expect(off.disabled).toBe(true);
  fireEvent.change(await screen.findByLabelText("Value of parameter 1"), { target: { value: "1" } });
  await user.click(screen.getByRole("radio", { name: /^From one step/ }));
  await user.type(screen.getByLabelText(/^First step/), "load");
  await vi.waitFor(() =>
    expect(of(sent, "Preview").at(-1)).toMatchObject({
      action: { rerun: { from: { steps: ["load"] }, params: { day: 1 } } },
    }),
  );
});

it("warns that a run was rerun already", async () => {
  const node = { status: "FAILED", statusRaw: "FAILED", substatus: null };
  const edges = [{ node: { ...node, runId: "aaaaaaaa-1111-4111-8111-111111111111", parentRunId: RUN } }];
  const over = header({ status: "FAILED", statusRaw: "FAILED", completedAt: 1_000 });
  const rerun = newIntent("RERUN", RUN, null, null);
  await show(
    <ConfirmDialog kept={{ intent: rerun, draft: EMPTY_DRAFT, sent: null }} onClose={() => {}} onDone={() => {}} />,
    {
      run: store(over),
      actions: { run: new Map([["RERUN", available("RERUN")]]) },
      answers: { Preview: PREVIEW, Reruns: { runs: { edges } } },
    },
  );
  await vi.waitFor(() => expect(screen.getByTestId("reruns").textContent).toContain("rerun as aaaaaaaa (Failed)"), {
    timeout: 10_000,
  });
  expect(screen.getByTestId("reruns").textContent).toContain("the same work would run twice");
});
