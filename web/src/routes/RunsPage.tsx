import { getRouteApi, Link } from "@tanstack/react-router";
import { type RefObject, Suspense, useCallback, useEffect, useMemo, useRef, useState } from "react";
import type { Sendable } from "../actions/intent";
import type { RunRow } from "../api/model";
import { type Column, DEFAULT_COLUMNS, usePreferredColumns } from "../runlist/columns";
import { ListTools } from "../runlist/ListTools";
import { RunFilters, SavedViews } from "../runlist/RunFilters";
import { RunHistogram } from "../runlist/RunHistogram";
import { obstacleOf } from "../runlist/sorts";
import { RunTable } from "../runlist/RunTable";
import { useRowMarks } from "../runlist/useRowMarks";
import { useWaits } from "../runlist/useWaits";
import { toRunsSearch } from "../runlist/runsSearch";
import { SyncBanner, SyncChip } from "../freshness/Sync";
import { useRowKeys, useSelection, useSelectKeys } from "../ui/useSelection";
import { useInbox } from "../inbox/inbox";
import { useCopySubject } from "../copyas/offer";
import { m } from "../messages";
import { formatQuery, type RunQuery } from "../runlist/query";
import { FOLLOWED, type RunList, useRunList } from "../runlist/useRunList";
import { ended } from "../status/look";
import { Button } from "../ui/Button";
import { useCan } from "../session/useCan";
import { useDocumentStatus } from "../ui/documentStatus";
import { useKeys } from "../ui/keys";
import { lazyPart } from "../ui/lazyPart";
import type { MenuItem } from "../ui/Menu";
import { Notice, Skeleton } from "../ui/Page";
import { Problem } from "../page/Problem";
import { useTick, useZone } from "../ui/Time";
import button from "../ui/Button.module.css";
import css from "./RunsPage.module.css";

const FirstSteps = lazyPart(() => import("../start/FirstSteps").then((part) => part.FirstSteps));
const BulkBar = lazyPart(() => import("../bulk/BulkBar").then((part) => part.BulkBar));
const route = getRouteApi("/runs");

export function RunsPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const zone = useZone();
  const mayNotStart = useCan("START");
  useDocumentStatus(m.runs.title);
  const query = useMemo(() => toRunsSearch(search), [search]);
  const list = useRunList(query, zone);
  const [preferred, prefer] = usePreferredColumns();
  const chosen = query.cols !== undefined || preferred !== null;
  const columns = query.cols ?? preferred ?? DEFAULT_COLUMNS;
  const head = useListHead();
  const { state, verdict, now } = list;
  const [unfolded, setUnfolded] = useState(false);
  const bar = useRef<{ focus: () => void }>(null);
  const inbox = useInbox();
  const selection = useSelection(useMemo(() => state.rows.map((row) => row.run.runId), [state.rows]));
  useTick(1_000);

  // The input is drawn first, because another list takes longer than a frame.
  const change = useCallback(
    (next: RunQuery, replace = false) =>
      void setTimeout(() => void navigate({ search: (old) => ({ ...old, ...toRunsSearch(next) }), replace })),
    [navigate],
  );
  const choose = (cols: Column[] | null): void => {
    prefer(cols);
    change({ ...query, cols: cols ?? undefined }, true);
  };
  useRowKeys();
  useSelectKeys(selection.turn, selection.selected.size > 0, selection.clear);
  useKeys({
    "/": { does: m.keys.filter, run: () => bar.current?.focus() },
    n: { does: m.keys.newer, run: list.show },
  });
  const menu = useCallback(
    (run: RunRow): MenuItem[] => [
      { word: m.runs.open, act: () => void navigate({ to: "/runs/$runId", params: { runId: run.runId } }) },
      {
        word: m.runs.copyLink,
        act: () => void navigator.clipboard.writeText(`${location.origin}/runs/${encodeURIComponent(run.runId)}`),
      },
      { word: m.run.copyId, act: () => void navigator.clipboard.writeText(run.runId) },
      { word: m.runs.onlyPlan(run.plan.planId), act: () => change({ plan: run.plan.planId }) },
      ...(run.triggeredBy
        ? [{ word: m.runs.onlyBy(run.triggeredBy), act: () => change({ by: run.triggeredBy ?? undefined }) }]
        : []),
      ...actionsOn(run).map((action) => ({
        word: `${m.action[action]}…`,
        act: () => void navigate({ to: "/runs/$runId", params: { runId: run.runId }, state: { act: action } }),
      })),
      { word: m.compare.menu, act: () => void navigate({ to: "/compare", search: { b: run.runId } }) },
      { word: m.runs.startLike, act: () => void navigate({ to: "/start", search: { from: run.runId } }) },
    ],
    [navigate, change],
  );

  useCopySubject(() => ({ of: "list", filter: list.filter }));
  return (
    <>
      <SyncBanner verdict={verdict} now={now} />
      <div className={css.head}>
        <h1>{m.runs.title}</h1>
        <SyncChip verdict={verdict} now={now} />
        <span className={css.unfold}>
          <Button kind="quiet" pressed={unfolded} onClick={() => setUnfolded(!unfolded)}>
            {m.runs.unfold}
          </Button>
        </span>
        {mayNotStart === null ? (
          <Link to="/start" className={`${button.button} ${css.start}`} data-kind="primary">
            {m.runs.start}
          </Link>
        ) : (
          <span className={css.start}>
            <Button refusal={mayNotStart}>{m.runs.start}</Button>
          </span>
        )}
      </div>
      <SavedViews query={query} waiting={inbox.count} />
      <div ref={head} className={css.filters}>
        <RunFilters ref={bar} query={query} change={change} />
      </div>
      <div className={css.fold} data-open={unfolded || undefined}>
        <RunHistogram query={query} filter={list.filter} change={change} />
      </div>
      <div className={css.above}>
        <Strip list={list} />
        <div className={css.fold} data-open={unfolded || undefined}>
          <ListTools query={query} change={change} columns={columns} choose={choose} />
        </div>
      </div>
      <Rows
        list={list}
        query={query}
        change={change}
        menu={menu}
        selection={selection}
        columns={columns}
        chosen={chosen}
      />
      {selection.selected.size > 0 && (
        <Suspense>
          <BulkBar
            selected={state.rows.flatMap(({ run }) => (selection.selected.has(run.runId) ? [run] : []))}
            filter={list.filter}
            more={state.hasMore}
            clear={selection.clear}
          />
        </Suspense>
      )}
    </>
  );
}

/** The actions that the menu of a row offers; the page of the run previews them. */
export function actionsOn(run: Pick<RunRow, "status" | "failedSteps">): Sendable[] {
  if (ended(run)) return ["RERUN"];
  return [...(run.failedSteps > 0 ? (["RETRY_STEP"] as const) : []), "CANCEL"];
}

/** Announces changes of the list. It keeps its height, so that nothing below moves. */
function Strip({ list: { state, show, refresh } }: { list: RunList }) {
  const newest = state.rows[0]?.run.createdAt ?? 0;
  const newer = state.waiting.every((run) => run.createdAt >= newest);
  return (
    <div className={css.strip} role="status">
      {state.waiting.length > 0 && (
        <Button kind="quiet" onClick={show}>
          ▲ {newer ? m.runs.newer(state.waiting.length) : m.runs.waiting(state.waiting.length)}
        </Button>
      )}
      {state.rows.some((row) => row.left) && (
        <Button kind="quiet" onClick={refresh}>
          {m.runs.refresh}
        </Button>
      )}
    </div>
  );
}

/** Keeps the height of the filters, which stay in sight, for the head of the table, which stays below them. */
function useListHead(): RefObject<HTMLDivElement | null> {
  const head = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const root = document.documentElement;
    const observer = new ResizeObserver(([entry]) => {
      const height = entry?.borderBoxSize[0]?.blockSize ?? 0;
      root.style.setProperty("--list-head", `${Math.floor(height)}px`);
    });
    if (head.current) observer.observe(head.current);
    return () => {
      observer.disconnect();
      root.style.removeProperty("--list-head");
    };
  }, []);
  return head;
}

interface RowsProps {
  list: RunList;
  query: RunQuery;
  change: (query: RunQuery) => void;
  columns: readonly Column[];
  chosen: boolean;
  menu: (run: RunRow) => MenuItem[];
  selection: ReturnType<typeof useSelection>;
}

function Rows({ list, query, change, menu, selection, columns, chosen }: RowsProps) {
  const { state, error, verdict, now, loadingMore, loadMore, refresh } = list;
  const runIds = useMemo(() => state.rows.map((row) => row.run.runId), [state.rows]);
  const marks = useRowMarks(runIds);
  const waits = useWaits(useMemo(() => state.rows.map(({ run }) => run), [state.rows]));
  const latest = useRef(query);
  latest.current = query;
  const onTag = useCallback(
    (tag: string) => {
      const next = { ...latest.current, tag };
      // The list stays readable when its order cannot be combined with the tag.
      change({ ...next, sort: obstacleOf(next.sort ?? "newest", next) ? undefined : next.sort });
    },
    [change],
  );
  const { sort } = query;
  if (state.rows.length > 0) {
    return (
      <>
        <RunTable
          rows={state.rows}
          now={now}
          frozen={verdict.state === "STALE" || verdict.state === "OFFLINE"}
          selecting={selection}
          menu={menu}
          columns={columns}
          chosen={chosen}
          marks={marks}
          waits={waits}
          onTag={onTag}
        />
        {error !== null && <Problem error={error} retry={loadMore} />}
        {state.rows.length > FOLLOWED && <p className={css.note}>{m.runs.notFollowed(FOLLOWED)}</p>}
        <p className={css.more}>
          {state.hasMore && (
            <Button onClick={loadMore} refusal={loadingMore ? m.runs.loading : null}>
              {sort === undefined ? m.runs.older : sort === "oldest" ? m.runs.younger : m.runs.more}
            </Button>
          )}
        </p>
      </>
    );
  }
  if (error !== null) return <Problem error={error} retry={refresh} />;
  if (!list.answered) return <Skeleton rows={8} label={m.runs.loading} />;
  const filter = formatQuery({ ...query, cols: undefined });
  if (filter !== "") {
    return (
      <Notice title={m.runs.emptyFilter}>
        <p>
          <code>{filter}</code>
        </p>
        {sort !== undefined && sort !== "newest" && sort !== "oldest" && <p>{m.runs.sortedMeans[sort]}.</p>}
        <Link to="/runs" search={{}}>
          {m.runs.clearFilter}
        </Link>
      </Notice>
    );
  }
  return (
    <Suspense fallback={<Skeleton rows={8} label={m.runs.loading} />}>
      <FirstSteps />
    </Suspense>
  );
}
