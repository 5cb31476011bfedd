import type { RunEvent } from "../api/model";
import { m } from "../messages";
import type { RunStore } from "../runstate/store";
import { titleOf } from "../runstate/stepTitle";
import { attemptName, duration, shortId } from "../format/format";

const ACTIONS: Readonly<Record<string, string>> = m.action;
const LONGEST = 140;

/** Reads a payload: texts and numbers, the empty text or null where there is none. */
function reader(payload: unknown) {
  const said: Record<string, unknown> = typeof payload === "object" && payload !== null ? { ...payload } : {};
  return {
    text: (name: string): string => {
      const value = said[name];
      return typeof value === "string" ? value : "";
    },
    number: (name: string): number => {
      const value = said[name];
      return typeof value === "number" ? value : 0;
    },
    list: (name: string): readonly unknown[] => {
      const value = said[name];
      return Array.isArray(value) ? value : [];
    },
    part: (name: string) => reader(said[name]),
  };
}

type Said = ReturnType<typeof reader>;
type Summarised = Pick<RunEvent, "eventType" | "stepId" | "logicalAttemptId" | "payload">;

/**
 * Describes an event in a sentence that names the step. An unknown type is summed up in parts. `tookOf` returns the
 * duration of an attempt as the other views of the run show it: that of the payload leaves out the way to the worker.
 */
export function summaryOf(
  event: Summarised,
  nameOf: (stepId: string) => string,
  tookOf: (stepId: string, attempt: number) => number | null = () => null,
): string {
  const said = reader(event.payload);
  const step = event.stepId === null ? "" : nameOf(event.stepId);
  const attempt = event.logicalAttemptId > 1 ? attemptName(event.logicalAttemptId) : "";
  const ms = (event.stepId === null ? null : tookOf(event.stepId, event.logicalAttemptId)) ?? said.number("durationMs");
  const words =
    sentence(event.eventType, said, step, attempt, nameOf, ms > 0 ? duration(ms) : "") ?? parts(said, step, nameOf);
  const reason = said.text("reason");
  return reason === "" ? words : [words, `“${reason}”`].filter((part) => part !== "").join(" ");
}

/** Describes an event of a run with the names and durations that the other views of the run show. */
export function summaryIn(store: RunStore, event: Summarised): string {
  return summaryOf(
    event,
    (id) => titleOf(store, id),
    (id, attempt) =>
      store.step(id)?.attempts.find(({ logicalAttemptId }) => logicalAttemptId === attempt)?.durationMs ?? null,
  );
}

function sentence(
  type: string,
  said: Said,
  step: string,
  attempt: string,
  nameOf: (stepId: string) => string,
  took: string,
): string | null {
  const is = m.events.is;
  const actor = said.text("actor");
  switch (type) {
    case "RunQueued":
      return is.queued(said.number("queuePosition"));
    case "RunApproved": {
      const people = said.list("approvers").map((one) => reader(one).text("principal"));
      return is.approved(people.join(", "));
    }
    case "RunStarted": {
      const plan = said.part("planRef");
      return is.started(said.list("steps").length, `${plan.text("planId")}@${plan.text("planVersion")}`);
    }
    case "RunPaused":
      return is.paused(said.text("pauseRequestedBy"), said.number("runningStepsCount"));
    case "RunResumed":
      return is.resumed(said.text("pauseRequestedBy"));
    case "RunCompleted":
      return is.completed;
    case "RunFailed": {
      const cause = said.part("rootCause").text("stepId");
      return is.runFailed(cause === "" ? "" : nameOf(cause), errorOf(said));
    }
    case "RunCancelled":
      return is.cancelled(actor, said.text("signalType") === "EMERGENCY_STOP", said.text("code"));
    case "StepStarted":
      return is.stepStarted(step, attempt);
    case "StepCompleted": {
      const kept = said.part("reused").text("runId");
      const person = said.part("manual").text("actor");
      if (kept !== "") return is.kept(step, shortId(kept));
      return person === "" ? is.succeeded(step, took) : is.completedBy(step, person);
    }
    case "StepFailed":
      return said.text("errorCode") === "CANCELLED" ? is.stopped(step) : is.failed(step, attempt, errorOf(said), took);
    case "StepSkipped":
      return is.skipped(step, m.events.skipped[said.text("reasonCode")] ?? said.text("reasonCode"));
    case "SignalAccepted":
    case "SignalRejected":
      return is.asked(actor, asked(said, nameOf), said.text("code"));
    case "StepAwaitingManualCompletion":
      return is.waits(step);
    case "StepNodesReported":
      return is.nodes(step, said.list("nodes").length);
    case "StepCompensated":
      return is.undone(nameOf(said.text("stepId")) || step);
    case "StepCompensationFailed":
      return is.notUndone(nameOf(said.text("stepId")) || step, errorOf(said));
    case "RunCompensationStarted":
      return is.undoing(said.list("stepIds").length);
    default:
      return null;
  }
}

/** The action of a signal, and its step. */
function asked(said: Said, nameOf: (stepId: string) => string): string {
  const signal = said.text("signalType");
  const step = said.text("stepId");
  return [ACTIONS[signal] ?? signal, step === "" ? "" : nameOf(step)].filter((part) => part !== "").join(" ");
}

function errorOf(said: Said): string {
  return [said.text("errorCode"), firstLine(said.text("errorMessage"))].filter((part) => part !== "").join(": ");
}

function parts(said: Said, step: string, nameOf: (stepId: string) => string): string {
  return [step, said.text("signalType") === "" ? "" : asked(said, nameOf), said.text("code"), errorOf(said)]
    .filter((part) => part !== "")
    .join(" · ");
}

function firstLine(text: string): string {
  const [line = ""] = text.trim().split("\n", 1);
  return line.length <= LONGEST ? line : `${line.slice(0, LONGEST)}…`;
}
