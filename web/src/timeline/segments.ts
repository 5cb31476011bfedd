// The segments of the timeline, computed from steps. Pure.
import type { Instant } from "../format/format";
import type { RunEvent, Step } from "../api/model";
import { stepLook } from "../status/look";
import type { Tone } from "../ui/tones";

export type SegmentKind = "waiting" | "tries" | "running" | "backoff" | "person";

export interface Segment {
  kind: SegmentKind;
  tone: Tone;
  from: Instant;
  /** Null while the segment is open. */
  to: Instant | null;
  /** 0 before the first attempt. */
  logicalAttemptId: number;
}

/** The time at which a step became ready: the end of its last predecessor. Null while one has not ended. */
export function readyAt(
  step: Step,
  stepOf: (stepId: string) => Step | undefined,
  runStartedAt: Instant | null,
): Instant | null {
  let ready = runStartedAt;
  for (const id of step.dependsOn) {
    const before = stepOf(id);
    if (!before || (before.status !== "SUCCESS" && before.status !== "SKIPPED")) return null;
    const over = before.completedAt ?? before.startedAt;
    if (over !== null && (ready === null || over > ready)) ready = over;
  }
  return ready;
}

/**
 * The segments in order of time: the wait before the first attempt, each attempt, and the waits between them. An attempt
 * with several automatic tries has two: the earlier tries with the pauses between them, and the last try. `awaits`
 * says that the run waits for an operator now, so a failed step ends with that wait.
 */
export function segmentsOf(step: Step, ready: Instant | null, awaits = false): Segment[] {
  const segments: Segment[] = [];
  if (step.keptFrom) return segments; // its work was done in another run
  const begun = step.attempts.filter((attempt) => attempt.startedAt !== null);
  const first = begun[0]?.startedAt ?? null;
  if (ready !== null && (first === null ? step.status === "PENDING" : first > ready)) {
    segments.push({ kind: "waiting", tone: "pending", from: ready, to: first, logicalAttemptId: 0 });
  }
  begun.forEach((attempt, i) => {
    const from = attempt.startedAt ?? 0;
    const last = i === begun.length - 1;
    const to = attempt.completedAt ?? (attempt.durationMs === null ? null : from + attempt.durationMs);
    const { tone } = stepLook({ ...attempt, pendingRetry: false, substatus: last ? step.substatus : null });
    const { logicalAttemptId, lastTryMs } = attempt;
    const lastTry = to !== null && lastTryMs !== null ? Math.max(from, to - lastTryMs) : from;
    if (lastTry > from) segments.push({ kind: "tries", tone, from, to: lastTry, logicalAttemptId });
    segments.push({
      kind: tone === "person" || step.type === "MANUAL" ? "person" : "running",
      tone,
      from: lastTry,
      to,
      logicalAttemptId,
    });
    const next = begun[i + 1]?.startedAt ?? null;
    const backoff = next === null && step.pendingRetry;
    const awaited = next === null && awaits && step.status === "FAILED";
    // The wait of a failed step also ends when a person skips it.
    const skippedAt = last && step.status === "SKIPPED" && attempt.status === "FAILED" ? step.completedAt : null;
    if (to !== null && (next !== null ? next > to : backoff || awaited || (skippedAt ?? 0) > to)) {
      // Automatic tries are within one attempt: a further one starts because a person retried the step, or resumed the
      // run.
      segments.push({
        kind: backoff ? "backoff" : "person",
        tone: backoff ? "pending" : "person",
        from: to,
        to: next ?? skippedAt,
        logicalAttemptId,
      });
    }
  });
  return segments;
}

/** The times that the label of a row says. */
export interface Label {
  from: Instant;
  /** Of the newest attempt that ran, or of the wait for a person when none did. */
  ms: number;
  /** Of the wait for a person after it; `waits`: it has not ended. */
  waitMs: number | null;
  waits: boolean;
}

/** The label of a row; null for one that neither ran nor waited for a person. */
export function labelOf(segments: readonly Segment[], now: Instant): Label | null {
  const work = segments.findLast(({ kind }) => kind === "running");
  const last = work ?? segments.findLast(({ kind }) => kind === "person");
  if (!last) return null;
  const first = segments.find(
    ({ kind, logicalAttemptId }) => kind === "tries" && logicalAttemptId === last.logicalAttemptId,
  );
  const from = (first ?? last).from;
  const wait = segments.at(-1);
  const after = work !== undefined && wait?.kind === "person" ? wait : null;
  return {
    from,
    ms: (last.to ?? now) - from,
    waitMs: after && (after.to ?? now) - after.from,
    waits: after !== null && after.to === null,
  };
}

/** Whether the row of a step changes with time: it waits, runs, or waits for its next attempt. */
export function goesOn(step: Step, ready: Instant | null, awaits = false): boolean {
  return segmentsOf(step, ready, awaits).some(({ to }) => to === null);
}

/** The first start of a step, and its total running time. */
export function beganAt(step: Step): Instant | null {
  return step.attempts.find((attempt) => attempt.startedAt !== null)?.startedAt ?? step.startedAt;
}

export function worked(step: Step, now: Instant): number {
  return attemptsOf(step, now).reduce((sum, { from, to }) => sum + to - from, 0);
}

/** The times in which attempts of the step ran; one that has not ended runs until now. */
function attemptsOf(step: Step, now: Instant): { from: Instant; to: Instant }[] {
  return step.attempts.flatMap(({ startedAt: from, completedAt, durationMs }) =>
    from === null ? [] : [{ from, to: completedAt ?? (durationMs === null ? now : from + durationMs) }],
  );
}

/** The time in which at least one of the steps ran. What the run waited for a person is not in it. */
export function workingTime(steps: readonly Step[], now: Instant): number {
  const spans = steps.flatMap((step) => attemptsOf(step, now)).toSorted((a, b) => a.from - b.from);
  let [sum, upTo] = [0, Number.NEGATIVE_INFINITY];
  for (const { from, to } of spans) {
    if (to <= upTo) continue;
    sum += to - Math.max(from, upTo);
    upTo = to;
  }
  return sum;
}

/** The times in which steps worked: a manual step waits for a person. */
export function workingSpans(steps: readonly Step[], now: Instant): { from: Instant; to: Instant }[] {
  return steps.flatMap((step) => (step.type === "MANUAL" ? [] : attemptsOf(step, now)));
}

/** Whether something works now: an attempt that has not ended, other than a manual step. */
export function worksNow(steps: readonly Step[]): boolean {
  return steps.some(
    ({ type, attempts }) =>
      type !== "MANUAL" &&
      attempts.some(
        ({ startedAt, completedAt, durationMs }) => startedAt !== null && completedAt === null && durationMs === null,
      ),
  );
}

/** Whether a person was awaited between two times: to retry a step, or to complete a manual one. */
export function awaitedPerson(steps: readonly Step[], from: Instant, to: Instant, awaits = false): boolean {
  return steps.some((step) =>
    segmentsOf(step, null, awaits).some(
      (segment) => segment.kind === "person" && segment.from < to && (segment.to ?? to) > from,
    ),
  );
}

export function endedAt(step: Step): Instant | null {
  return step.completedAt ?? step.attempts.at(-1)?.completedAt ?? null;
}

/**
 * The critical path: from `last` back to its predecessor that ended last, and so on. Without `last` it begins at the
 * step that ended last; a run that failed is as long as the way to its failure, so there `last` is the failed step.
 */
export function criticalPath(
  order: readonly string[],
  stepOf: (stepId: string) => Step | undefined,
  now: Instant,
  last: string | null = null,
): ReadonlySet<string> {
  const end = (id: string): number => {
    const step = stepOf(id);
    if (!step || beganAt(step) === null) return Number.NEGATIVE_INFINITY;
    return endedAt(step) ?? now;
  };
  const latest = (ids: readonly string[]): string | null =>
    ids.reduce<string | null>(
      (best, id) => (end(id) > (best === null ? Number.NEGATIVE_INFINITY : end(best)) ? id : best),
      null,
    );
  const path = new Set<string>();
  for (let id = last ?? latest(order); id !== null && !path.has(id); id = latest(stepOf(id)?.dependsOn ?? []))
    path.add(id);
  return path;
}

/** The time that the steps of a path ran, and its share of the time in which any step ran. */
export function pathLength(
  path: ReadonlySet<string>,
  order: readonly string[],
  stepOf: (stepId: string) => Step | undefined,
  now: Instant,
): { ms: number; share: number } | null {
  const steps = (ids: Iterable<string>): Step[] => [...ids].flatMap((id) => stepOf(id) ?? []);
  const ms = steps(path).reduce((sum, step) => sum + worked(step, now), 0);
  const whole = workingTime(steps(order), now);
  return path.size === 0 || whole <= 0 ? null : { ms, share: Math.min(1, ms / whole) };
}

export interface Band {
  from: Instant;
  to: Instant | null;
}

/** The pauses of the run. The header has the pause that has not ended. */
export function pauseBands(
  events: readonly Pick<RunEvent, "eventType" | "persistedAt">[],
  since: Instant | null,
  until: Instant,
): Band[] {
  const bands: Band[] = [];
  for (const { eventType, persistedAt } of events) {
    if (persistedAt > until) break;
    const last = bands.at(-1);
    if (eventType === "RunPaused" && last?.to !== null) bands.push({ from: persistedAt, to: null });
    else if (eventType === "RunResumed" && last) last.to ??= persistedAt;
  }
  const last = bands.at(-1);
  if (since === null) {
    // The event of the end has not been read yet.
    if (last) last.to ??= until;
  } else if (last?.to !== null) {
    bands.push({ from: since, to: null });
  }
  return bands;
}
