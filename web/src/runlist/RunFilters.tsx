import { Link } from "@tanstack/react-router";
import { memo, type Ref, useEffect, useId, useImperativeHandle, useRef, useState } from "react";
import { m } from "../messages";
import { formatQuery, parseQuery, type RunQuery } from "./query";
import { dropView, keepView, MAX_VIEWS, readViews } from "./savedViews";
import { RUN_STATUSES, type RunStatusFilter } from "../address/views";
import { Button } from "../ui/Button";
import { Dialog } from "../ui/Dialog";
import form from "../styles/Form.module.css";
import { toRunsSearch } from "./runsSearch";
import pills from "../styles/Pill.module.css";
import tabs from "../styles/Tabs.module.css";
import prose from "../styles/Prose.module.css";
import css from "./RunFilters.module.css";

const TYPING_MS = 300;
const EXACTLY = { exact: true, includeSearch: true };
const BUILT_IN: { name: string; query: RunQuery }[] = [
  { name: m.runs.all, query: {} },
  { name: m.runs.active, query: { status: ["PENDING", "RUNNING", "PAUSED"] } },
  { name: m.runs.failedToday, query: { status: ["FAILED"], from: "today" } },
  { name: m.runs.mine, query: { by: "me" } },
];

/** Named queries: the built-in ones, the inbox, and those saved in this browser. */
export const SavedViews = memo(function SavedViews({ query, waiting }: { query: RunQuery; waiting: number | null }) {
  const [views, setViews] = useState(() => readViews(localStorage));
  const [naming, setNaming] = useState(false);
  const nav = useRef<HTMLElement>(null);
  const opened = useRef(views);
  useEffect(() => {
    // The button that saved or removed the view is gone, so the focus moves to the view or to the button that saves it.
    if (views !== opened.current) nav.current?.querySelector<HTMLElement>("[aria-current], button")?.focus();
  }, [views]);
  const now = formatQuery(query);
  const own = views.find((view) => view.query === now);
  const known = own !== undefined || BUILT_IN.some((view) => formatQuery(view.query) === now);
  return (
    <nav ref={nav} className={`${tabs.tabs} ${css.views}`} aria-label={m.runs.views}>
      {BUILT_IN.map(({ name, query: to }) => (
        <Link
          key={name}
          to="/runs"
          search={toRunsSearch(to)}
          className={tabs.tab}
          activeOptions={EXACTLY}
          aria-current={formatQuery(to) === now ? "page" : undefined}
        >
          {name}
        </Link>
      ))}
      <Link to="/bulk" className={css.side}>
        {m.bulk.list}
      </Link>
      <Link to="/inbox" className={tabs.tab}>
        {m.runs.waitingForMe} {waiting !== null && waiting > 0 && <span className={prose.count}>{waiting}</span>}
      </Link>
      {views.map((view) => (
        <Link
          key={view.name}
          to="/runs"
          search={toRunsSearch(parseQuery(view.query).query)}
          className={tabs.tab}
          activeOptions={EXACTLY}
          aria-current={view === own ? "page" : undefined}
        >
          {view.name}
        </Link>
      ))}
      {own && (
        <Button kind="quiet" onClick={() => setViews(dropView(localStorage, views, own.name))}>
          {m.runs.dropView}
        </Button>
      )}
      {!known && (
        <Button
          kind="quiet"
          refusal={views.length >= MAX_VIEWS ? m.runs.manyViews(MAX_VIEWS) : null}
          onClick={() => setNaming(true)}
        >
          {m.runs.saveView}
        </Button>
      )}
      {naming && (
        <NameView
          query={now}
          close={() => setNaming(false)}
          save={(name) => {
            setViews(keepView(localStorage, views, { name, query: now }));
            setNaming(false);
          }}
        />
      )}
    </nav>
  );
});

function NameView({ query, save, close }: { query: string; save: (name: string) => void; close: () => void }) {
  const [name, setName] = useState("");
  return (
    <Dialog title={m.runs.saveViewTitle} onClose={close}>
      <form
        className={form.stack}
        onSubmit={(event) => {
          event.preventDefault();
          if (name.trim() !== "") save(name.trim());
        }}
      >
        <p>
          <code>{query}</code>
        </p>
        <label className={form.field}>
          <span>{m.runs.viewName}</span>
          <input value={name} maxLength={40} required onChange={(event) => setName(event.target.value)} />
        </label>
        <div className={form.buttons}>
          <Button back onClick={close}>
            {m.confirm.back}
          </Button>
          <Button kind="primary" type="submit">
            {m.runs.keepView}
          </Button>
        </div>
      </form>
    </Dialog>
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
  const { unknown } = parseQuery(typed);
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
