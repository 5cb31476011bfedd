// The list of the runs page. Rows change in place and never move under the pointer: new runs wait behind a button, and
// a row that no longer matches stays, marked, until the list is refreshed.
import type { RunRow } from "../api/model";

export interface ListRow {
  run: RunRow;
  /** The run no longer matches the filter. */
  left: boolean;
}

export interface ListFrame {
  reset: boolean;
  runs: readonly RunRow[];
  removed: readonly string[];
  /** The most rows that the stream follows. */
  first: number;
}

export interface ListState {
  rows: readonly ListRow[];
  /** Runs that match and are not yet shown, in the order of the list. */
  waiting: readonly RunRow[];
  /** The runs that the stream follows: createdAt by runId. */
  followed: ReadonlyMap<string, number>;
  endCursor: string | null;
  hasMore: boolean;
}

export const EMPTY: ListState = { rows: [], waiting: [], followed: new Map(), endCursor: null, hasMore: false };

function newer(held: RunRow, offered: RunRow): RunRow {
  if (held.storeEpoch !== offered.storeEpoch) return offered;
  if (offered.runSeq !== held.runSeq) return offered.runSeq > held.runSeq ? offered : held;
  return offered.opsRev >= held.opsRev ? offered : held;
}

/** Appends a page that was read by query. */
export function appendPage(
  state: ListState,
  runs: readonly RunRow[],
  endCursor: string | null,
  hasMore: boolean,
): ListState {
  const held = new Set(state.rows.map((row) => row.run.runId));
  const rows = [...state.rows, ...runs.filter((run) => !held.has(run.runId)).map((run) => ({ run, left: false }))];
  const shown = new Set(rows.map((row) => row.run.runId));
  return { ...state, rows, waiting: state.waiting.filter((run) => !shown.has(run.runId)), endCursor, hasMore };
}

function follow(state: ListState, frame: ListFrame): Map<string, number> {
  const followed = new Map(frame.reset ? [] : state.followed);
  for (const runId of frame.removed) followed.delete(runId);
  for (const run of frame.runs) followed.set(run.runId, run.createdAt);
  return followed;
}

/** Applies a frame of `runListUpdates`, which follows the newest matching runs. */
export function applyFrame(state: ListState, frame: ListFrame): ListState {
  const offered = new Map(frame.runs.map((run) => [run.runId, run]));
  const followed = follow(state, frame);
  // A run older than a full page was pushed out by newer runs and may still match.
  const floor = followed.size >= frame.first ? Math.min(...followed.values()) : Number.NEGATIVE_INFINITY;
  const removed = new Set(frame.removed);
  const gone = (run: RunRow): boolean =>
    run.createdAt > floor && (removed.has(run.runId) || (frame.reset && !followed.has(run.runId)));
  const rows = state.rows.map((row) => {
    const run = offered.get(row.run.runId);
    if (run) {
      offered.delete(row.run.runId);
      return { run: newer(row.run, run), left: false };
    }
    return gone(row.run) && !row.left ? { ...row, left: true } : row;
  });
  const waiting = state.waiting.filter((run) => !gone(run) && !offered.has(run.runId));
  // A run older than the last row belongs to a page that was not read yet.
  const last = state.hasMore ? Math.min(...state.rows.map((row) => row.run.createdAt)) : Number.NEGATIVE_INFINITY;
  const fresh = [...offered.values()].filter((run) => run.createdAt > last);
  const next = {
    ...state,
    rows,
    followed,
    waiting: [...fresh, ...waiting].toSorted((a, b) => b.createdAt - a.createdAt),
  };
  return state.rows.length === 0 ? showWaiting(next) : next;
}

/**
 * Applies the first runs read again, where no stream follows: rows change in place, missing ones are marked, and runs
 * that are not shown wait.
 */
export function reread(state: ListState, runs: readonly RunRow[]): ListState {
  const read = new Map(runs.map((run) => [run.runId, run]));
  const rows = state.rows.map((row, i) => {
    const run = read.get(row.run.runId);
    return run ? { run: newer(row.run, run), left: false } : { ...row, left: row.left || i < runs.length };
  });
  const shown = new Set(rows.map((row) => row.run.runId));
  return { ...state, rows, waiting: runs.filter((run) => !shown.has(run.runId)) };
}

/** Shows the waiting runs, when the reader asks for them. */
export function showWaiting(state: ListState): ListState {
  const rows = [...state.waiting.map((run) => ({ run, left: false })), ...state.rows].toSorted(
    (a, b) => b.run.createdAt - a.run.createdAt,
  );
  return { ...state, rows, waiting: [] };
}
