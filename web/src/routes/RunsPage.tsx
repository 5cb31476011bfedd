import { getRouteApi, Link } from "@tanstack/react-router";
import { useCallback, useEffect, useReducer, useRef, useState, useSyncExternalStore } from "react";
import { follow } from "../api/follow";
import { type RunFilter, RunListDocument, RunsDocument, type SyncReason } from "../api/gen/graphql";
import { linkState, onLink } from "../api/live";
import { type Instant, instant, toRow } from "../api/model";
import { request } from "../api/request";
import { RunTable } from "../components/RunTable";
import { SyncBanner, SyncChip } from "../components/Sync";
import { m } from "../messages";
import { appendPage, applyFrame, EMPTY, type ListFrame, type ListState, showWaiting } from "../runs/list";
import type { VerdictReason, VerdictState } from "../runs/store";
import { RUN_STATUSES, type RunStatusFilter } from "../runs/views";
import { Button } from "../ui/Button";
import { useDocumentStatus } from "../ui/documentStatus";
import { Notice, Problem, Skeleton } from "../ui/Page";
import { useTick } from "../ui/Time";
import css from "./RunsPage.module.css";

const PAGE = 50;
const SILENCE_MS = 20_000;
const TYPING_MS = 250;
const EXACTLY = { exact: true, includeSearch: true };
const route = getRouteApi("/runs");

type Change = { kind: "clear" } | { kind: "frame"; frame: ListFrame } | { kind: "page"; page: Parameters<typeof appendPage>[1]; cursor: string | null; more: boolean } | { kind: "show" };

function reduce(state: ListState, change: Change): ListState {
  switch (change.kind) {
    case "clear":
      return EMPTY;
    case "frame":
      return applyFrame(state, change.frame);
    case "page":
      return appendPage(state, change.page, change.cursor, change.more);
    case "show":
      return showWaiting(state);
  }
}

interface Freshness {
  sync: VerdictState;
  reason: SyncReason | null;
  asOf: Instant;
  at: number;
}

const WORDS: Record<RunStatusFilter, string> = {
  PENDING: m.status.pending,
  RUNNING: m.status.running,
  PAUSED: m.status.paused,
  FAILED: m.status.failed,
  COMPLETED: m.status.completed,
  CANCELLED: m.status.cancelled,
};

export function RunsPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  useDocumentStatus(m.runs.title);
  const filtered = search.status !== undefined || search.q !== undefined || search.env !== undefined;
  const list = useList(search);
  const { state, error, fresh, loadMore, refresh, show, loadingMore } = list;
  const link = useSyncExternalStore(onLink, linkState);
  useTick(1_000);
  const verdict = judge(fresh, link.link === "closed" || (link.link === "connecting" && fresh !== null));
  const now = fresh ? fresh.asOf + (Date.now() - fresh.at) : 0;
  const statuses = search.status ?? [];
  const toggle = (status: RunStatusFilter): void => {
    const next = statuses.includes(status) ? statuses.filter((other) => other !== status) : [...statuses, status];
    void navigate({ search: (old) => ({ ...old, status: next.length > 0 ? next : undefined }), replace: true });
  };

  return (
    <>
      <SyncBanner verdict={verdict} now={now} />
      <div className={css.head}>
        <h1>{m.runs.title}</h1>
        <SyncChip verdict={verdict} now={now} />
        <Link to="/start" className={css.start}>
          {m.runs.start}
        </Link>
      </div>
      <div className={css.filters}>
        <div role="group" aria-label="Filter by status" className={css.statuses}>
          <Link to="/runs" search={{}} className={css.filter} activeOptions={EXACTLY}>
            {m.runs.all}
          </Link>
          {RUN_STATUSES.map((status) => (
            <button key={status} type="button" className={css.filter} aria-pressed={statuses.includes(status)} onClick={() => toggle(status)}>
              {WORDS[status]}
            </button>
          ))}
        </div>
        <FindRun text={search.q ?? ""} find={(q) => void navigate({ search: (old) => ({ ...old, q: q === "" ? undefined : q }), replace: true })} />
      </div>
      {state.waiting.length > 0 && (
        <p className={css.newer}>
          <Button onClick={show}>▲ {m.runs.newer(state.waiting.length)}</Button>
        </p>
      )}
      {error !== null && state.rows.length === 0 ? (
        <Problem error={error} retry={refresh} />
      ) : state.rows.length > 0 ? (
        <>
          <RunTable rows={state.rows} now={now} frozen={verdict.state === "STALE" || verdict.state === "OFFLINE"} />
          <p className={css.more}>
            {state.rows.some((row) => row.left) && <Button onClick={refresh}>{m.runs.refresh}</Button>}
            {state.hasMore && (
              <Button onClick={loadMore} refusal={loadingMore ? m.runs.loading : null}>
                {m.runs.older}
              </Button>
            )}
          </p>
        </>
      ) : fresh === null ? (
        <Skeleton rows={8} label={m.runs.loading} />
      ) : filtered ? (
        <Notice title={m.runs.emptyFilter}>
          <Link to="/runs" search={{}}>
            {m.runs.clearFilter}
          </Link>
        </Notice>
      ) : (
        <Notice title={m.runs.emptyAll}>
          <p>
            {m.runs.emptyAllHint} <code>dvt run start</code>
          </p>
        </Notice>
      )}
    </>
  );
}

function judge(fresh: Freshness | null, cut: boolean): { state: VerdictState; reason: VerdictReason; asOf: Instant; lagMs: number } {
  const asOf = fresh?.asOf ?? 0;
  if (cut || (fresh !== null && Date.now() - fresh.at > SILENCE_MS)) return { state: "OFFLINE", reason: "CONNECTION_LOST", asOf, lagMs: 0 };
  if (fresh === null) return { state: "LOADING", reason: null, asOf, lagMs: 0 };
  return { state: fresh.sync, reason: fresh.reason, asOf, lagMs: 0 };
}

interface ListSearch {
  status?: RunStatusFilter[] | undefined;
  q?: string | undefined;
  env?: string | undefined;
}

function useList({ status, q, env }: ListSearch) {
  const [state, dispatch] = useReducer(reduce, EMPTY);
  const [error, setError] = useState<unknown>(null);
  const [fresh, setFresh] = useState<Freshness | null>(null);
  const [round, setRound] = useState(0);
  const [loadingMore, setLoadingMore] = useState(false);
  const statusKey = status?.join(",");
  const filter = useRef<RunFilter>({});
  filter.current = { ...(status ? { statuses: status } : {}), ...(q ? { text: q } : {}), ...(env ? { environmentId: env } : {}) };

  useEffect(() => {
    const wanted = filter.current;
    const abort = new AbortController();
    dispatch({ kind: "clear" });
    setError(null);
    // The page comes with a cursor for older runs; from then on the stream keeps its rows true.
    request(RunsDocument, { first: PAGE, after: null, filter: wanted }, abort.signal)
      .then(({ runs }) => {
        const { endCursor, hasNextPage } = runs.pageInfo;
        dispatch({ kind: "page", page: runs.edges.map((edge) => toRow(edge.node)), cursor: endCursor, more: hasNextPage });
      })
      .catch((cause: unknown) => {
        if (!abort.signal.aborted) setError(cause);
      });
    const stream = follow(RunListDocument, { first: PAGE, filter: wanted }, {
      next: ({ runListUpdates: update }) => {
        setFresh({ sync: update.sync, reason: update.reason, asOf: instant(update.asOf), at: Date.now() });
        if (update.runs.length > 0 || update.removed.length > 0 || update.reset) {
          dispatch({ kind: "frame", frame: { reset: update.reset, runs: update.runs.map(toRow), removed: update.removed } });
        }
      },
      refused: setError,
    });
    return () => {
      abort.abort();
      stream.close();
    };
  }, [statusKey, q, env, round]);

  const cursor = state.endCursor;
  const loadMore = useCallback(() => {
    setLoadingMore(true);
    request(RunsDocument, { first: PAGE, after: cursor, filter: filter.current })
      .then(({ runs }) => dispatch({ kind: "page", page: runs.edges.map((edge) => toRow(edge.node)), cursor: runs.pageInfo.endCursor, more: runs.pageInfo.hasNextPage }))
      .catch(setError)
      .finally(() => setLoadingMore(false));
  }, [cursor]);
  return {
    state,
    error,
    fresh,
    loadingMore,
    loadMore,
    refresh: () => setRound(round + 1),
    show: () => dispatch({ kind: "show" }),
  };
}

function FindRun({ text, find }: { text: string; find: (text: string) => void }) {
  const [typed, setTyped] = useState(text);
  const latest = useRef(find);
  latest.current = find;
  const sent = useRef(text);
  useEffect(() => {
    // The address changed by other means than typing here.
    if (text !== sent.current) setTyped(text);
    sent.current = text;
  }, [text]);
  useEffect(() => {
    if (typed === sent.current) return;
    const timer = setTimeout(() => {
      sent.current = typed;
      latest.current(typed);
    }, TYPING_MS);
    return () => clearTimeout(timer);
  }, [typed]);
  return <input type="search" className={css.find} value={typed} maxLength={128} placeholder={m.runs.find} aria-label={m.runs.find} onChange={(event) => setTyped(event.target.value)} />;
}
