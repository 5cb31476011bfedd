import { expect, it } from "vitest";
import type { RunEvent } from "../api/model";
import { summaryOf } from "./summary";

const nameOf = (id: string): string => (id === "need-file" ? "Look for a file" : id);

function summary(eventType: string, payload: unknown, over: Partial<RunEvent> = {}): string {
  return summaryOf({ eventType, stepId: null, logicalAttemptId: 1, payload, ...over }, nameOf);
}

const STEP = { stepId: "need-file" };

it("has a sentence for each type of event of a run", () => {
  const policy = { actor: "dvt", reason: "the project approves automatically" };
  const plan = { planId: "nightly", planVersion: "1.0" };
  expect([
    summary("RunQueued", { queuePosition: 3 }),
    summary("RunApproved", policy),
    summary("RunApproved", { actor: "ben", approvers: [{ principal: "ana" }, { principal: "ben" }] }),
    summary("RunStarted", { planRef: plan, steps: [{}, {}] }),
    summary("RunPaused", { pauseRequestedBy: "ops", reason: "maintenance", runningStepsCount: 2 }),
    summary("RunResumed", { pauseRequestedBy: "ops" }),
    summary("RunCompleted", {}),
    summary("RunFailed", { errorCode: "EXIT_STATUS", rootCause: { stepId: "need-file" } }),
    summary("RunCancelled", { actor: "ana", signalType: "CANCEL", reason: "wrong month" }),
    summary("RunCancelled", { code: "APPROVAL_EXPIRED" }),
    summary("RunCompensationStarted", { stepIds: ["a", "b"] }),
  ]).toEqual([
    "The run waits in the queue, at position 3.",
    "The run may start. “the project approves automatically”",
    "ana, ben approved the run.",
    "The run started: 2 steps of nightly@1.0.",
    "ops paused the run; 2 running steps finish first. “maintenance”",
    "ops resumed the run.",
    "The run completed.",
    "The run failed, because Look for a file failed: EXIT_STATUS",
    "ana cancelled the run. “wrong month”",
    "The run was cancelled: APPROVAL_EXPIRED",
    "dvt undoes 2 steps, the last one first.",
  ]);
});

it("says the duration that the other views of the run show, not that of the worker", () => {
  const event = { eventType: "StepCompleted", stepId: "load", logicalAttemptId: 2, payload: { durationMs: 600 } };
  expect(summaryOf(event, nameOf, (id, attempt) => (id === "load" && attempt === 2 ? 800 : null))).toBe(
    "load succeeded after 0.8 s.",
  );
});

it("has a sentence for each type of event of a step, which names it", () => {
  expect([
    summary("StepStarted", {}, STEP),
    summary("StepStarted", {}, { ...STEP, logicalAttemptId: 2 }),
    summary("StepCompleted", { durationMs: 61_000 }, STEP),
    summary("StepCompleted", { reused: { runId: "c09db14f-1111" } }, STEP),
    summary("StepCompleted", { manual: { actor: "ana" } }, STEP),
    summary("StepFailed", { errorCode: "EXIT_STATUS", errorMessage: "no table\nat line 3", durationMs: 900 }, STEP),
    summary("StepFailed", { errorCode: "CANCELLED" }, STEP),
    summary("StepSkipped", { reasonCode: "FAIL_FAST" }, STEP),
    summary("StepAwaitingManualCompletion", {}, STEP),
    summary("StepCompensated", { stepId: "need-file" }),
  ]).toEqual([
    "Look for a file started.",
    "Look for a file started as Retry #1.",
    "Look for a file succeeded after 1 m 1 s.",
    "Look for a file kept its result of run c09db14f.",
    "ana completed Look for a file.",
    "Look for a file failed after 0.9 s: EXIT_STATUS: no table",
    "Look for a file was stopped, because the run was cancelled.",
    "Look for a file: not started, because another step failed.",
    "Look for a file waits for a person.",
    "Look for a file was undone.",
  ]);
});

it("says which signal, on what and why, and whether it was refused", () => {
  expect(
    summary("SignalAccepted", { signalType: "RETRY_STEP", stepId: "need-file", actor: "ana", reason: "it is there" }),
  ).toBe("ana sent: Retry step Look for a file. “it is there”");
  expect(summary("SignalRejected", { signalType: "PAUSE", actor: "ana", code: "RUN_TERMINAL" })).toBe(
    "ana sent: Pause. It was refused: RUN_TERMINAL",
  );
});

it("sums up what it does not know", () => {
  expect(summary("FutureThing", { errorCode: "NEW", reason: "later" }, STEP)).toBe("Look for a file · NEW “later”");
  expect(summary("FutureThing", null)).toBe("");
});
