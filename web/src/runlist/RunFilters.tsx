import { Link } from "@tanstack/react-router";
import { memo, type Ref, Suspense, useEffect, useId, useImperativeHandle, useMemo, useRef, useState } from "react";
import { RunCountsDocument } from "../api/gen/graphql";
import { useQuery } from "../api/useQuery";
import { m } from "../messages";
import { formatQuery, parseQuery, type RunQuery, toFilter } from "./query";
import { MAX_VIEWS, useSavedViews } from "./savedViews";
import { RUN_STATUSES, type RunStatusFilter } from "../address/views";
import { Button } from "../ui/Button";
import { lazyPart } from "../ui/lazyPart";
import { useZone } from "../ui/Time";
import { toRunsSearch } from "./runsSearch";
import pills from "../styles/Pill.module.css";
import tabs from "../styles/Tabs.module.css";
import prose from "../styles/Prose.module.css";
import css from "./RunFilters.module.css";

const NameView = lazyPart(() => import("./NameView").then((part) => part.NameView));
const TYPING_MS = 300;
const EXACTLY = { exact: true, includeSearch: true };
const BUILT_IN: { name: string; query: RunQuery }[] = [
  { name: m.runs.all, query: {} },
  { name: m.runs.active, query: { status: ["PENDING", "RUNNING", "PAUSED"] } },
  { name: m.runs.failed, query: { status: ["AWAITING", "FAILED"] } },
  { name: m.runs.failedToday, query: { status: ["AWAITING", "FAILED"], from: "today" } },
  { name: m.runs.mine, query: { by: "me" } },
];
/** The part of the failed runs that still waits for somebody to retry. */
const WAITING: RunQuery = { status: ["AWAITING"] };
const FAILED = formatQuery({ status: ["AWAITING", "FAILED"] });
const COUNT_MS = 15_000;
/** The server counts exactly up to this number. */
const COUNTED = 100;
const MOST_COUNTS = 24;

/** The number of runs of each query but the first, by its text; kept current while the page is visible. */
function useCounts(queries: readonly RunQuery[]): ReadonlyMap<string, number> {
  const zone = useZone();
  const key = JSON.stringify([queries.slice(1, MOST_COUNTS + 1).map(formatQuery), zone]);
  const variables = useMemo(() => {
    const [texts, inZone] = JSON.parse(key) as [string[], typeof zone];
    return { filters: texts.map((text) => toFilter(parseQuery(text).query, Date.now(), inZone)) };
  }, [key]);
  const { last } = useQuery(RunCountsDocument, variables, ({ runCounts }) => runCounts, { every: COUNT_MS });
  const texts = queries.slice(1, MOST_COUNTS + 1).map(formatQuery);
  return new Map(texts.flatMap((text, i) => (last?.[i] === undefined ? [] : [[text, last[i]] as const])));
}

/** Named queries: what needs attention, the built-in ones, the inbox, and those that were saved. */
export const SavedViews = memo(function SavedViews({ query, waiting }: { query: RunQuery; waiting: number | null }) {
  const { views, save, drop } = useSavedViews();
  const [naming, setNaming] = useState(false);
  const nav = useRef<HTMLElement>(null);
  const opened = useRef(views.length);
  useEffect(() => {
    // The button that saved or removed the view is gone, so the focus moves to the view or to the button that saves it.
    if (views.length !== opened.current && document.activeElement === document.body) {
      nav.current?.querySelector<HTMLElement>("[aria-current], button")?.focus();
    }
    opened.current = views.length;
  }, [views.length]);
  const now = formatQuery(query);
  const own = views.find((view) => view.query === now);
  const known = own !== undefined || BUILT_IN.some((view) => formatQuery(view.query) === now);
  const saved = views.map((view) => parseQuery(view.query).query);
  const counts = useCounts([...BUILT_IN.map((view) => view.query), WAITING, ...saved]);
  return (
    <nav ref={nav} className={`${tabs.tabs} ${css.views}`} aria-label={m.runs.views}>
      {BUILT_IN.map(({ name, query: to }) => (
        <View
          key={name}
          name={name}
          to={to}
          count={counts.get(formatQuery(to))}
          waiting={formatQuery(to) === FAILED ? counts.get(formatQuery(WAITING)) : undefined}
          current={formatQuery(to) === now}
        />
      ))}
      <Link to="/" className={tabs.tab}>
        {m.runs.attention}
      </Link>
      <Link to="/inbox" className={tabs.tab}>
        {m.runs.waitingForMe} {waiting !== null && waiting > 0 && <span className={prose.count}>{waiting}</span>}
      </Link>
      <Link to="/bulk" className={css.side}>
        {m.bulk.list}
      </Link>
      {views.map((view, i) => (
        <View
          key={`${view.owner} ${view.viewId}`}
          name={view.name}
          to={saved[i] ?? {}}
          count={counts.get(formatQuery(saved[i] ?? {}))}
          current={view === own}
          title={view.yours ? undefined : m.runs.sharedBy(view.owner)}
        />
      ))}
      {own?.yours && (
        <Button kind="quiet" onClick={() => void drop(own)}>
          {m.runs.dropView}
        </Button>
      )}
      {!known && (
        <Button
          kind="quiet"
          refusal={views.filter((view) => view.yours).length >= MAX_VIEWS ? m.runs.manyViews(MAX_VIEWS) : null}
          onClick={() => setNaming(true)}
        >
          {m.runs.saveView}
        </Button>
      )}
      {naming && (
        <Suspense>
          <NameView query={query} close={() => setNaming(false)} save={save} />
        </Suspense>
      )}
    </nav>
  );
});

interface ViewProps {
  name: string;
  to: RunQuery;
  count: number | undefined;
  /** Number of them that have failed steps and wait for somebody. */
  waiting?: number | undefined;
  current: boolean;
  title?: string | undefined;
}

function View({ name, to, count, waiting = 0, current, title }: ViewProps) {
  const split = count !== undefined && count <= COUNTED && waiting > 0 && waiting <= count;
  return (
    <Link
      to="/runs"
      search={toRunsSearch(to)}
      className={tabs.tab}
      activeOptions={EXACTLY}
      aria-current={current ? "page" : undefined}
      title={title}
    >
      {name}{" "}
      {count !== undefined && count > 0 && (
        <span className={prose.count}>{count > COUNTED ? m.runs.many(COUNTED) : count}</span>
      )}
      {split && <span className={css.split}> {m.runs.split(count - waiting, waiting)}</span>}
    </Link>
  );
}

interface FiltersProps {
  query: RunQuery;
  /** A choice adds an entry to the history; typed text replaces the present one. */
  change: (query: RunQuery, replace?: boolean) => void;
  /** Moves the focus to the bar. */
  ref: Ref<{ focus: () => void }>;
}

/** One bar for the whole filter, and the statuses as buttons. */
export const RunFilters = memo(function RunFilters({ query, change, ref }: FiltersProps) {
  const text = formatQuery(query);
  const [typed, setTyped] = useState(text);
  const sent = useRef(text);
  const input = useRef<HTMLInputElement>(null);
  const hint = useId();
  useImperativeHandle(ref, () => ({ focus: () => input.current?.select() }), []);
  useEffect(() => {
    // The address was changed elsewhere.
    if (text !== sent.current) setTyped(text);
    sent.current = text;
  }, [text]);
  const latest = useRef(change);
  latest.current = change;
  const apply = (words: string): void => {
    const { query: next } = parseQuery(words);
    if (formatQuery(next) === sent.current) return;
    sent.current = formatQuery(next);
    latest.current(next, true);
  };
  useEffect(() => {
    const timer = setTimeout(() => apply(typed), TYPING_MS);
    return () => clearTimeout(timer);
  }, [typed]);
  const unknown = [...(query.unread ? [query.unread] : []), ...parseQuery(typed).unknown];
  return (
    <div className={css.filters}>
      <Statuses chosen={query.status ?? NONE} choose={(status) => change({ ...query, status })} />
      <div className={css.bar}>
        <input
          ref={input}
          type="search"
          className={css.find}
          value={typed}
          maxLength={400}
          spellCheck={false}
          placeholder={m.runs.filter}
          aria-label={m.runs.filter}
          aria-describedby={hint}
          aria-invalid={unknown.length > 0 || undefined}
          onChange={(event) => setTyped(event.target.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter") apply(typed);
            if (event.key === "Escape") event.currentTarget.blur();
          }}
        />
        <kbd className={css.slash} aria-hidden="true">
          /
        </kbd>
        <p id={hint} className={css.hint} data-bad={unknown.length > 0 || undefined}>
          {unknown.length > 0 ? m.runs.unknownWords(unknown.join(" ")) : m.runs.filterHint}
        </p>
      </div>
    </div>
  );
});

const NONE: readonly RunStatusFilter[] = [];

interface StatusesProps {
  chosen: readonly RunStatusFilter[];
  choose: (statuses: RunStatusFilter[] | undefined) => void;
}

function Statuses({ chosen, choose }: StatusesProps) {
  // The button is pressed at once; the address decides when it has followed.
  const [pressed, setPressed] = useState(chosen);
  useEffect(() => setPressed(chosen), [chosen]);
  return (
    <div role="group" aria-label={m.runs.byStatus} className={`${pills.pills} ${css.statuses}`}>
      {RUN_STATUSES.map((status) => (
        <button
          key={status}
          type="button"
          className={pills.pill}
          aria-pressed={pressed.includes(status)}
          onClick={() => {
            const next = RUN_STATUSES.filter((other) => pressed.includes(other) !== (other === status));
            setPressed(next);
            choose(next.length > 0 ? next : undefined);
          }}
        >
          {m.runs.statuses[status]}
        </button>
      ))}
    </div>
  );
}
