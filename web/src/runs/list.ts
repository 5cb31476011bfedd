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
}

export interface ListState {
  rows: readonly ListRow[];
  /** New runs that match, newest first, not yet shown. */
  waiting: readonly RunRow[];
  endCursor: string | null;
  hasMore: boolean;
}

export const EMPTY: ListState = { rows: [], waiting: [], endCursor: null, hasMore: false };

function newer(held: RunRow, offered: RunRow): RunRow {
  if (held.storeEpoch !== offered.storeEpoch) return offered;
  if (offered.runSeq !== held.runSeq) return offered.runSeq > held.runSeq ? offered : held;
  return offered.opsRev >= held.opsRev ? offered : held;
}

/** A page by query: what follows the rows held. */
export function appendPage(state: ListState, runs: readonly RunRow[], endCursor: string | null, hasMore: boolean): ListState {
  const held = new Set([...state.rows.map((row) => row.run.runId), ...state.waiting.map((run) => run.runId)]);
  const rows = [...state.rows, ...runs.filter((run) => !held.has(run.runId)).map((run) => ({ run, left: false }))];
  return { ...state, rows, endCursor, hasMore };
}

/** A frame of `runListUpdates`. */
export function applyFrame(state: ListState, frame: ListFrame): ListState {
  const offered = new Map(frame.runs.map((run) => [run.runId, run]));
  const removed = new Set(frame.removed);
  const oldest = Math.min(...frame.runs.map((run) => run.createdAt));
  const rows = state.rows.map((row) => {
    const run = offered.get(row.run.runId);
    if (run) {
      offered.delete(row.run.runId);
      return { run: newer(row.run, run), left: false };
    }
    const gone = removed.has(row.run.runId) || (frame.reset && row.run.createdAt >= oldest);
    return gone && !row.left ? { ...row, left: true } : row;
  });
  const waiting = state.waiting.filter((run) => !removed.has(run.runId) && !offered.has(run.runId));
  const newest = Math.max(...state.rows.map((row) => row.run.createdAt));
  const fresh = [...offered.values()].filter((run) => run.createdAt >= newest || state.rows.length === 0);
  const queued = [...fresh, ...waiting].toSorted((a, b) => b.createdAt - a.createdAt);
  const next = { ...state, rows, waiting: queued };
  return state.rows.length === 0 ? showWaiting(next) : next;
}

/** Takes in the runs that wait, at the person's word. */
export function showWaiting(state: ListState): ListState {
  return { ...state, rows: [...state.waiting.map((run) => ({ run, left: false })), ...state.rows], waiting: [] };
}
