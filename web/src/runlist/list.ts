// The runs page. Rows change in place; order and membership never move under the pointer: new runs
// wait behind a button, and a row that no longer matches stays, marked, until the page is refreshed.
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
  /** How many rows the stream follows at most. */
  first: number;
}

export interface ListState {
  rows: readonly ListRow[];
  /** Runs that match and are not yet shown, newest first. */
  waiting: readonly RunRow[];
  /** What the stream follows now: runIds with their createdAt. */
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

/** A page by query: what follows the rows held. */
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

/** A frame of `runListUpdates`: the newest runs that match, as many as it follows. */
export function applyFrame(state: ListState, frame: ListFrame): ListState {
  const offered = new Map(frame.runs.map((run) => [run.runId, run]));
  const followed = follow(state, frame);
  // What is older than a full page was pushed out of it by newer runs: it may well match still.
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
  // While older pages are to come, what is older than the last row belongs to them.
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

/** The same runs read again where no stream follows: rows change in place, those that are missing have left. */
export function reread(state: ListState, runs: readonly RunRow[]): ListState {
  const read = new Map(runs.map((run) => [run.runId, run]));
  const rows = state.rows.map((row, i) => {
    const run = read.get(row.run.runId);
    return run ? { run: newer(row.run, run), left: false } : { ...row, left: row.left || i < runs.length };
  });
  return { ...state, rows };
}

/** Takes in the runs that wait, at the person's word. */
export function showWaiting(state: ListState): ListState {
  const rows = [...state.waiting.map((run) => ({ run, left: false })), ...state.rows].toSorted(
    (a, b) => b.run.createdAt - a.run.createdAt,
  );
  return { ...state, rows, waiting: [] };
}
