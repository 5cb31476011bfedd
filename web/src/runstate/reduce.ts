// The state of a run as this page knows it, and how frames change it. Everything here is pure: the same state and frame
// give the same state, and nothing that was returned before is changed.
import type { RunHeader, Step } from "../api/model";
import type { Instant } from "../format/format";
import { EMPTY_TALLY, STEP_GROUPS, stepGroup, type Tally } from "../status/stepGroup";
import type { RunFrame } from "./frame";
import { naturalSort } from "./naturalSort";

export interface RunState {
  /** The history that the state belongs to; null before the first state. */
  epoch: string | null;
  /** Histories that were replaced, for example by a restore: their late frames are dropped. */
  retired: ReadonlySet<string>;
  /** The position in the log, or -1 before the first state. */
  seq: number;
  opsRev: number;
  /**
   * The newest revision that a frame named. It is ahead of opsRev after a change outside of the log that the header does
   * not show, such as an approval that is not the last one.
   */
  newestOpsRev: number;
  header: RunHeader | null;
  /** The steps are known; before that only the header may be. */
  whole: boolean;
  /** The steps in the order of the API, with the index of each by its id. */
  steps: readonly Step[];
  index: ReadonlyMap<string, number>;
  /** The step ids in the order in which people see them. */
  order: readonly string[];
  tally: Tally;
  /** The position to which the history was restored while the page watched, or null. */
  restoredTo: number | null;
  /** The number of frames that offered an older state than the one held. */
  rewinds: number;

  /** The server's newest statement about its own freshness. */
  last: Pick<RunFrame, "sync" | "reason" | "asOf" | "lagMs"> | null;
  headSeq: number;
  /** Since when the head is ahead of the state, by the local clock; null while it is not. */
  behindAt: number | null;
  /** Why the last frame could not be applied; null once a frame was. */
  missing: "GAP" | "EPOCH_CHANGED" | null;
  /** The missing part was asked for, and has not arrived. */
  asked: boolean;
  /** A frame has confirmed the state since the connection was made. */
  proven: boolean;
  /** When the last frame was accepted, by the local clock. */
  frameAt: number;
}

/** The state before anything arrived. `at` is the local time. */
export function emptyState(at: number): RunState {
  return {
    epoch: null,
    retired: new Set(),
    seq: -1,
    opsRev: -1,
    newestOpsRev: -1,
    header: null,
    whole: false,
    steps: [],
    index: new Map(),
    order: [],
    tally: EMPTY_TALLY,
    restoredTo: null,
    rewinds: 0,
    last: null,
    headSeq: 0,
    behindAt: null,
    missing: null,
    asked: false,
    proven: false,
    frameAt: at,
  };
}

/**
 * The state after a frame that arrived at `at`, by the local clock. Within an epoch the position never decreases:
 * older frames change nothing, a delta that does not continue the state is a gap, and another epoch replaces the state
 * only by a snapshot with `reset`. The result has `asked` set when the stream must be started again from the state.
 */
export function reduce(state: RunState, frame: RunFrame, at: number): RunState {
  if (state.retired.has(frame.epoch)) return state;
  const { snapshot, delta } = frame;
  if (state.epoch !== null && frame.epoch !== state.epoch) {
    // With a header alone nothing is lost together with its history.
    if (!state.whole) return reduce(withoutPosition(state), frame, at);
    return snapshot && frame.reset ? restored(state, frame, snapshot, at) : lacks(state, "EPOCH_CHANGED");
  }
  if (snapshot) {
    if (frame.runSeq < state.seq) return { ...state, rewinds: state.rewinds + 1 };
    const newer = frame.runSeq > state.seq || frame.opsRev > state.opsRev || !state.whole;
    return observe(newer ? replaceSteps(state, frame, frame.runSeq, snapshot) : state, frame, at);
  }
  if (delta) {
    if (delta.toSeq < state.seq) return state;
    if (delta.fromSeq > state.seq || !state.whole) return lacks(state, "GAP");
    const newer = delta.toSeq > state.seq || frame.opsRev > state.opsRev;
    return observe(newer ? mergeSteps(state, frame, delta) : state, frame, at);
  }
  if (frame.runSeq < state.seq) return state;
  // A change that the server sent to this viewer before was lost on its way.
  return frame.runSeq > state.seq ? lacks(state, "GAP") : observe(state, frame, at);
}

/**
 * The state after the answer to a query while the page opens: first the header, then the same with the steps. It must
 * be newer, as a frame must, and it proves nothing: a frame says whether it is true.
 */
export function openState(state: RunState, header: RunHeader, steps: readonly Step[] | null): RunState {
  const { storeEpoch: epoch, runSeq, opsRev } = header;
  if (state.whole || state.retired.has(epoch)) return state;
  const base = state.epoch !== null && state.epoch !== epoch ? withoutPosition(state) : state;
  if (runSeq < base.seq || (runSeq === base.seq && opsRev < base.opsRev)) return base;
  const frame = { epoch, opsRev };
  if (steps !== null) return replaceSteps(base, frame, runSeq, { header, steps });
  return { ...base, header, ...position(base, frame, runSeq) };
}

/** The state at one moment of the past, which may be earlier than the moment before. */
export function momentState(state: RunState, header: RunHeader, steps: readonly Step[], at: Instant): RunState {
  const frame = { epoch: header.storeEpoch, opsRev: header.opsRev };
  return {
    ...replaceSteps({ ...state, opsRev: -1 }, frame, header.runSeq, { header, steps }),
    last: { sync: "LIVE", reason: null, asOf: at, lagMs: 0 },
    headSeq: header.runSeq,
  };
}

/** The state as it was, unproven: after a lost connection or after sleep a frame must confirm it. */
export function unproven(state: RunState, at: number): RunState {
  return { ...state, proven: false, frameAt: at };
}

export function stepOf(state: RunState, stepId: string): Step | undefined {
  const i = state.index.get(stepId);
  return i === undefined ? undefined : state.steps[i];
}

/** The ids of the steps that differ between two states, also those that only one of them has. */
export function changedSteps(before: RunState, after: RunState): ReadonlySet<string> {
  const changed = new Set<string>();
  if (before.steps === after.steps) return changed;
  for (const step of after.steps) if (stepOf(before, step.stepId) !== step) changed.add(step.stepId);
  for (const { stepId } of before.index === after.index ? [] : before.steps)
    if (!after.index.has(stepId)) changed.add(stepId);
  return changed;
}

type Content = { header: RunHeader; steps: readonly Step[] };
type Revision = Pick<RunFrame, "epoch" | "opsRev">;

function position(
  state: RunState,
  { epoch, opsRev }: Revision,
  seq: number,
): Pick<RunState, "epoch" | "seq" | "opsRev"> {
  return { epoch, seq, opsRev: Math.max(state.opsRev, opsRev) };
}

/** Forgets the position, so that any history may follow; the header and the steps stay until then. */
function withoutPosition(state: RunState): RunState {
  return { ...state, epoch: null, seq: -1, opsRev: -1, newestOpsRev: -1, whole: false };
}

function lacks(state: RunState, missing: NonNullable<RunState["missing"]>): RunState {
  return { ...state, missing, asked: true };
}

function restored(state: RunState, frame: RunFrame, snapshot: Content, at: number): RunState {
  const retired = new Set(state.retired);
  if (state.epoch !== null) retired.add(state.epoch);
  const empty = { ...emptyState(at), retired, restoredTo: snapshot.header.runSeq, rewinds: state.rewinds };
  return observe(replaceSteps(empty, frame, frame.runSeq, snapshot), frame, at);
}

/** Accepts the freshness of a frame whose content the state has. */
function observe(state: RunState, frame: RunFrame, at: number): RunState {
  const { last } = state;
  if (last && frame.asOf < last.asOf && frame.runSeq === state.seq && !frame.reset) return { ...state, frameAt: at };
  const headSeq = Math.max(state.headSeq, frame.headSeq ?? 0, frame.runSeq);
  const { sync, reason, asOf, lagMs } = frame;
  const newestOpsRev = Math.max(state.newestOpsRev, frame.opsRev);
  const seen = { ...state, newestOpsRev, frameAt: at, last: { sync, reason, asOf, lagMs }, headSeq };
  if (state.header === null) return seen;
  const behindAt = headSeq <= state.seq ? null : (state.behindAt ?? at);
  return { ...seen, behindAt, missing: null, asked: false, proven: true };
}

/** A snapshot takes the place of all steps; a step that did not change keeps its identity. */
function replaceSteps(state: RunState, frame: Revision, seq: number, { header, steps }: Content): RunState {
  const next = steps.map((step) => {
    const held = stepOf(state, step.stepId);
    return held && isSame(held, step) ? held : step;
  });
  const tally = { ...EMPTY_TALLY };
  for (const step of next) tally[stepGroup(step)] += 1;
  return {
    ...state,
    header,
    whole: true,
    ...position(state, frame, seq),
    ...arranged(state, next),
    tally: kept(state.tally, tally),
  };
}

/** A delta has absolute values: its steps take the place of those held. */
function mergeSteps(state: RunState, frame: Revision, { toSeq, header, steps }: Content & { toSeq: number }): RunState {
  const next = [...state.steps];
  const tally = { ...state.tally };
  for (const step of steps) {
    const i = state.index.get(step.stepId);
    const held = i === undefined ? undefined : next[i];
    if (held) tally[stepGroup(held)] -= 1;
    tally[stepGroup(step)] += 1;
    if (i === undefined) next.push(step);
    else next[i] = step;
  }
  return {
    ...state,
    header,
    ...position(state, frame, toSeq),
    ...arranged(state, next),
    tally: kept(state.tally, tally),
  };
}

/** Steps with their index and their order, which are kept while the same steps stand in the same order. */
function arranged(state: RunState, steps: readonly Step[]): Pick<RunState, "steps" | "index" | "order"> {
  const same = steps.length === state.steps.length && steps.every(({ stepId }, i) => stepId === state.steps[i]?.stepId);
  if (same) return { steps, index: state.index, order: state.order };
  return { steps, index: new Map(steps.map(({ stepId }, i) => [stepId, i])), order: naturalSort(steps) };
}

function kept(before: Tally, after: Tally): Tally {
  return STEP_GROUPS.every((group) => before[group] === after[group]) ? before : after;
}

function isSame(a: Step, b: Step): boolean {
  return (
    a.changedSeq === b.changedSeq &&
    a.pendingRetry === b.pendingRetry &&
    a.wait?.kind === b.wait?.kind &&
    a.wait?.blockingSteps.length === b.wait?.blockingSteps.length
  );
}
