import { useCallback, useEffect, useReducer, useRef, useState, useSyncExternalStore } from "react";
import { follow } from "../api/follow";
import { type RunFilter, RunListDocument, RunsDocument, type RunsQuery, type SyncReason } from "../api/gen/graphql";
import { linkState, onLink } from "../api/live";
import type { Instant } from "../format/format";
import { instant, type RunRow, toRow } from "../api/model";
import { request } from "../api/request";
import { seenFor, whileSeen } from "../api/whileSeen";
import type { Zone } from "../format/format";
import { appendPage, applyFrame, EMPTY, type ListFrame, type ListState, reread, showWaiting } from "./list";
import { type RunQuery, toFilter } from "./query";
import { orderOf } from "./sorts";
import type { VerdictReason, VerdictState } from "../runstate/store";

const PAGE = 50;
/** The most rows that one stream follows; older rows stay as they were read. */
export const FOLLOWED = 200;
const WAITING = 200;
/** The one order that the server streams. */
const FOLLOWED_ORDER = "CREATED_DESC";
const SILENCE_MS = 20_000;
const REREAD_MS = 5_000;

type Change =
  | { kind: "clear" }
  | { kind: "frame"; frame: ListFrame }
  | { kind: "page"; runs: RunRow[]; cursor: string | null; more: boolean }
  | { kind: "reread"; runs: RunRow[] }
  | { kind: "show" };

function reduce(state: ListState, change: Change): ListState {
  switch (change.kind) {
    case "clear":
      return EMPTY;
    case "frame":
      return applyFrame(state, change.frame);
    case "page":
      return appendPage(state, change.runs, change.cursor, change.more);
    case "reread":
      return reread(state, change.runs);
    case "show":
      return showWaiting(state);
  }
}

function page({ runs }: RunsQuery): Extract<Change, { kind: "page" }> {
  return {
    kind: "page",
    runs: runs.edges.map((edge) => toRow(edge.node)),
    cursor: runs.pageInfo.endCursor,
    more: runs.pageInfo.hasNextPage,
  };
}

interface Freshness {
  sync: VerdictState;
  reason: SyncReason | null;
  asOf: Instant;
  at: number;
}

export interface ListVerdict {
  state: VerdictState;
  reason: VerdictReason;
  asOf: Instant;
  lagMs: number;
  /** There is no stream; the list is read again at this interval. */
  everyMs?: number;
}

export interface RunList {
  state: ListState;
  filter: RunFilter;
  /** The error of the first page, or of a later one. */
  error: unknown;
  verdict: ListVerdict;
  /** The server's time. */
  now: Instant;
  /** The first page was answered. */
  answered: boolean;
  loadingMore: boolean;
  loadMore: () => void;
  refresh: () => void;
  show: () => void;
}

/**
 * The matching runs: a page by query, then a stream. Only the order of creation has a stream; others are read again.
 */
export function useRunList(query: RunQuery, zone: Zone): RunList {
  const [state, dispatch] = useReducer(reduce, EMPTY);
  const [error, setError] = useState<unknown>(null);
  const [fresh, setFresh] = useState<Freshness | null>(null);
  const [answered, setAnswered] = useState(false);
  const [round, setRound] = useState(0);
  const [loadingMore, setLoadingMore] = useState(false);
  const link = useSyncExternalStore(onLink, linkState);
  // Other columns show the same list.
  const key = JSON.stringify([{ ...query, cols: undefined }, zone]);
  const asked = useRef({ query, zone });
  asked.current = { query, zone };
  const filter = useRef<RunFilter>({});
  /** Aborted when another list is shown, so that a late answer is not added to it. */
  const asking = useRef(new AbortController());
  const rows = useRef(0);
  rows.current = state.rows.length;
  const orderBy = orderOf(query);

  useEffect(() => {
    const abort = new AbortController();
    asking.current = abort;
    filter.current = toFilter(asked.current.query, Date.now(), asked.current.zone);
    dispatch({ kind: "clear" });
    setError(null);
    setAnswered(false);
    // The changed filter is drawn first, because sending takes longer than drawing.
    const sending = setTimeout(() => {
      request(RunsDocument, { first: PAGE, after: null, filter: filter.current, orderBy }, abort.signal)
        .then((result) => {
          dispatch(page(result));
          setAnswered(true);
        })
        .catch((cause: unknown) => {
          if (!abort.signal.aborted) setError(cause);
        });
    });
    return () => {
      clearTimeout(sending);
      abort.abort();
    };
  }, [key, orderBy, round]);

  // The stream follows more rows than are shown, so that a row that was pushed out is told from one that has left.
  const wanted = Math.min(FOLLOWED, Math.ceil((state.rows.length + state.waiting.length + 1) / PAGE) * PAGE + PAGE);
  const first = useRef(0);
  first.current = answered ? Math.max(first.current, wanted) : 0;
  const followed = first.current;
  useEffect(() => {
    if (!answered || orderBy !== FOLLOWED_ORDER) return;
    const stream = follow(
      RunListDocument,
      { first: followed, filter: filter.current },
      {
        next: ({ runListUpdates: update }) => {
          setFresh({ sync: update.sync, reason: update.reason, asOf: instant(update.asOf), at: Date.now() });
          if (update.runs.length > 0 || update.removed.length > 0 || update.reset) {
            dispatch({
              kind: "frame",
              frame: { reset: update.reset, runs: update.runs.map(toRow), removed: update.removed, first: followed },
            });
          }
        },
        refused: setError,
      },
    );
    return stream.close;
  }, [answered, orderBy, followed, key, round]);

  useEffect(() => {
    if (!answered || orderBy === FOLLOWED_ORDER) return;
    const { signal } = asking.current;
    // The verdict shows the time of the last success.
    const again = async (): Promise<void> => {
      const result = await request(
        RunsDocument,
        { first: Math.min(FOLLOWED, Math.max(PAGE, rows.current)), after: null, filter: filter.current, orderBy },
        signal,
      );
      dispatch({ kind: "reread", runs: page(result).runs });
      setFresh({ sync: "LIVE", reason: null, asOf: Date.now(), at: Date.now() });
    };
    return whileSeen(REREAD_MS, again, 0);
  }, [answered, orderBy, key, round]);

  const cursor = state.endCursor;
  const loadMore = useCallback(() => {
    const { signal } = asking.current;
    setLoadingMore(true);
    request(RunsDocument, { first: PAGE, after: cursor, filter: filter.current, orderBy }, signal)
      .then((result) => dispatch(page(result)))
      .catch((cause: unknown) => {
        if (!signal.aborted) setError(cause);
      })
      .finally(() => setLoadingMore(false));
  }, [cursor, orderBy]);
  const refresh = useCallback(() => setRound((n) => n + 1), []);

  const cut = link.link === "closed" || (link.link === "connecting" && fresh !== null);
  return {
    state,
    filter: filter.current,
    error,
    verdict: { ...judge(fresh, cut), ...(orderBy === FOLLOWED_ORDER ? {} : { everyMs: REREAD_MS }) },
    now: fresh ? fresh.asOf + (Date.now() - fresh.at) : Date.now(),
    answered,
    loadingMore,
    loadMore,
    refresh,
    show: () =>
      state.waiting.length >= WAITING || orderBy !== FOLLOWED_ORDER ? refresh() : dispatch({ kind: "show" }),
  };
}

function judge(fresh: Freshness | null, cut: boolean): ListVerdict {
  const asOf = fresh?.asOf ?? 0;
  const silent = fresh !== null && Date.now() - fresh.at > SILENCE_MS;
  if (cut || (silent && seenFor() > SILENCE_MS)) return { state: "OFFLINE", reason: "CONNECTION_LOST", asOf, lagMs: 0 };
  if (fresh === null) return { state: "LOADING", reason: null, asOf, lagMs: 0 };
  // A hidden tab asks for nothing; the visible one is asking now.
  if (silent) return { state: "VERIFYING", reason: null, asOf, lagMs: 0 };
  return { state: fresh.sync, reason: fresh.reason, asOf, lagMs: 0 };
}
