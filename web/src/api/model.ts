// The types of the UI, mapped from those of the wire in one place: times become milliseconds since 1970, so that
// comparing and subtracting them needs no parsing.
import type {
  ActionFieldsFragment,
  EventFieldsFragment,
  RunHeaderFragment,
  RunRowFragment,
  SignalFieldsFragment,
  StepFieldsFragment,
} from "./gen/graphql";
import type { Instant } from "../format/format";

type Timed<T, K extends keyof T> = Omit<T, K> & { [P in K]: null extends T[P] ? Instant | null : Instant };

export type RunRow = Timed<
  Omit<RunRowFragment, "pause" | "queue" | "cancellation">,
  "createdAt" | "startedAt" | "completedAt" | "retryDeadline"
> & {
  pause: Timed<NonNullable<RunRowFragment["pause"]>, "since"> | null;
  cancellation: Timed<NonNullable<RunRowFragment["cancellation"]>, "at"> | null;
  queue: Timed<NonNullable<RunRowFragment["queue"]>, "createdAt" | "notBefore"> | null;
};
export type RunHeader = RunRow & Pick<RunHeaderFragment, "tenantId" | "parentRunId" | "engine" | "retryWindowMs">;
export type Attempt = Timed<StepFieldsFragment["attempts"][number], "startedAt" | "completedAt">;
export type Wait = Timed<NonNullable<StepFieldsFragment["wait"]>, "since" | "until">;
export type Step = Timed<Omit<StepFieldsFragment, "attempts" | "wait">, "startedAt" | "completedAt"> & {
  attempts: Attempt[];
  wait: Wait | null;
};
export type RunEvent = Timed<EventFieldsFragment, "persistedAt">;
export type Signal = Timed<SignalFieldsFragment, "receivedAt" | "deliveredAt" | "appliedAt">;
export interface LogLine {
  no: number;
  at: Instant;
  stream: string;
  engineAttemptId: number;
  text: string;
}
export type Availability = ActionFieldsFragment;

export function instant(time: string): Instant {
  return Date.parse(time);
}

function maybe(time: string | null): Instant | null {
  return time === null ? null : Date.parse(time);
}

export function toRow(run: RunRowFragment): RunRow {
  return {
    ...run,
    createdAt: instant(run.createdAt),
    startedAt: maybe(run.startedAt),
    completedAt: maybe(run.completedAt),
    retryDeadline: maybe(run.retryDeadline),
    pause: run.pause && { ...run.pause, since: instant(run.pause.since) },
    cancellation: run.cancellation && { ...run.cancellation, at: instant(run.cancellation.at) },
    queue: run.queue && {
      ...run.queue,
      createdAt: instant(run.queue.createdAt),
      notBefore: maybe(run.queue.notBefore),
    },
  };
}

export function toHeader(run: RunHeaderFragment): RunHeader {
  return {
    ...toRow(run),
    tenantId: run.tenantId,
    parentRunId: run.parentRunId,
    engine: run.engine,
    retryWindowMs: run.retryWindowMs,
  };
}

export function toStep(step: StepFieldsFragment): Step {
  return {
    ...step,
    startedAt: maybe(step.startedAt),
    completedAt: maybe(step.completedAt),
    attempts: step.attempts.map((attempt) => ({
      ...attempt,
      startedAt: maybe(attempt.startedAt),
      completedAt: maybe(attempt.completedAt),
    })),
    wait: step.wait && { ...step.wait, since: maybe(step.wait.since), until: maybe(step.wait.until) },
  };
}

export function toEvent(event: EventFieldsFragment): RunEvent {
  return { ...event, persistedAt: instant(event.persistedAt) };
}

export function toSignal(signal: SignalFieldsFragment): Signal {
  return {
    ...signal,
    receivedAt: instant(signal.receivedAt),
    deliveredAt: maybe(signal.deliveredAt),
    appliedAt: maybe(signal.appliedAt),
  };
}

export function toLine(line: Omit<LogLine, "at"> & { at: string }): LogLine {
  return { ...line, at: instant(line.at) };
}
