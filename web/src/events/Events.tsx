import { useNavigate, useSearch } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { DownloadIcon } from "lucide-react";
import { useEffect, useMemo, useReducer, useRef, useState } from "react";
import { follow } from "../api/follow";
import { RunEventsDocument, type RunEventsSubscriptionVariables } from "../api/gen/graphql";
import { type RunEvent, toEvent } from "../api/model";
import type { ApiError } from "../api/error";
import { save } from "../ui/saveFile";
import { m } from "../messages";
import { useRunState, useRunStore } from "../runstate/context";
import { decisionOf } from "./decision";
import { eventLines, type LogRow, logRows, stepOf, typesOf } from "./eventFilter";
import { collectEvents, type EventLog, NO_EVENTS } from "./events";
import { summaryIn } from "./summary";
import { Button } from "../ui/Button";
import { count, duration } from "../format/format";
import { Notice, Skeleton } from "../ui/Page";
import { Problem } from "../page/Problem";
import { Time } from "../ui/Time";
import prose from "../styles/Prose.module.css";
import virtual from "../styles/Virtual.module.css";
import css from "./Events.module.css";

const ROW = 32;
const NO_TYPES: readonly string[] = [];

/** Follows the log of a run from its first event. */
function useEvents(runId: string): { log: EventLog; error: ApiError | null; again: () => void } {
  const [log, add] = useReducer(collectEvents, NO_EVENTS);
  const [error, setError] = useState<ApiError | null>(null);
  const [attempt, setAttempt] = useState(0);
  useEffect(() => {
    const variables: RunEventsSubscriptionVariables = { runId, after: 0, storeEpoch: null };
    add({ reset: true, events: [] });
    const stream = follow(RunEventsDocument, variables, {
      next: ({ runEvents }) => {
        const events = runEvents.events.map(toEvent);
        variables.storeEpoch = runEvents.storeEpoch;
        variables.after = events.at(-1)?.runSeq ?? (runEvents.reset ? 0 : (variables.after ?? 0));
        add({ reset: runEvents.reset, events });
      },
      refused: setError,
      broken: ({ code }) => {
        if (code !== "CURSOR_INVALID") return;
        variables.after = 0;
        variables.storeEpoch = null;
        add({ reset: true, events: [] });
      },
    });
    return stream.close;
  }, [runId, attempt]);
  return { log, error, again: () => (setError(null), setAttempt(attempt + 1)) };
}

/** Lists every event of the log. The address names the types, a part of a step's name, and the open event. */
export default function Events({ runId }: { runId: string }) {
  const { log, error, again } = useEvents(runId);
  const { types, seq, find = "" } = useSearch({ strict: false });
  const store = useRunStore();
  const navigate = useNavigate({ from: "/runs/$runId" });
  const upTo = useRunState((store) => (store.verdict().state === "PAST" ? store.seq : null));
  const wanted = types ?? NO_TYPES;
  const rows = useMemo(() => {
    const part = find.trim().toLowerCase();
    const ofStep = (event: RunEvent): boolean => {
      const step = stepOf(event);
      return step !== null && `${step} ${store.step(step)?.name ?? ""}`.toLowerCase().includes(part);
    };
    return logRows(log.events, wanted, upTo, part === "" ? null : ofStep);
  }, [log, wanted, upTo, find, store]);
  if (error) return <Problem error={error} retry={again} />;
  if (!log.received) return <Skeleton rows={6} label={m.run.tabs.events} />;
  if (log.events.length === 0) return <Notice title={m.events.empty} />;
  const choose = (next: string[]): void =>
    void navigate({ search: (old) => ({ ...old, types: next.length > 0 ? next : undefined }), replace: true });
  const open = (to: number): void =>
    void navigate({ search: (old) => ({ ...old, seq: to === seq ? undefined : to }), replace: true });
  return (
    <div>
      <div className={css.tools}>
        <div className={css.types} role="group" aria-label={m.events.types}>
          {typesOf(log.events, upTo).map(([type, n]) => (
            <Button
              key={type}
              kind="quiet"
              pressed={wanted.includes(type)}
              onClick={() =>
                choose(wanted.includes(type) ? wanted.filter((other) => other !== type) : [...wanted, type])
              }
            >
              <span title={type}>{m.events.type(type)}</span> <span className={css.n}>{count(n)}</span>
            </Button>
          ))}
        </div>
        <input
          type="search"
          className={css.find}
          value={find}
          maxLength={200}
          placeholder={m.events.find}
          aria-label={m.events.find}
          onChange={(event) => {
            const text = event.target.value;
            void navigate({ search: (old) => ({ ...old, find: text === "" ? undefined : text }), replace: true });
          }}
        />
        <Button onClick={() => save(`${runId}-events.jsonl`, eventLines(log.events))}>
          <DownloadIcon size={14} aria-hidden="true" /> {m.events.export}
        </Button>
      </div>
      {log.dropped > 0 && <p className={css.note}>{m.events.dropped(log.dropped)}</p>}
      {rows.length === 0 ? (
        <Notice title={m.events.noneMatch} />
      ) : (
        <Rows rows={rows} open={seq ?? null} choose={open} />
      )}
    </div>
  );
}

interface RowsProps {
  rows: readonly LogRow[];
  /** The event whose payload is shown. */
  open: number | null;
  choose: (seq: number) => void;
}

function Rows({ rows, open, choose }: RowsProps) {
  const pane = useRef<HTMLDivElement>(null);
  const list = useVirtualizer({
    count: rows.length,
    getScrollElement: () => pane.current,
    estimateSize: () => ROW,
    overscan: 12,
  });
  const at = open === null ? -1 : rows.findIndex((row) => row.kind === "event" && row.event.runSeq === open);
  const sought = useRef(false);
  useEffect(() => {
    // The event of the address is scrolled to once, so that the reader can scroll freely afterwards.
    if (at < 0 || sought.current) return;
    sought.current = true;
    list.scrollToIndex(at, { align: "center" });
  }, [at, list]);
  return (
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling region must be reachable by keyboard
    <div ref={pane} className={virtual.pane} role="region" aria-label={m.run.tabs.events} tabIndex={0}>
      <div className={`${css.row} ${css.heads}`} aria-hidden="true">
        {m.events.heads.map((head) => (
          <span key={head}>{head}</span>
        ))}
      </div>
      <ol className={virtual.extent} style={{ height: list.getTotalSize() }}>
        {list.getVirtualItems().map((item) => {
          const row = rows[item.index];
          return row === undefined ? null : (
            <li
              key={row.kind === "event" ? row.event.runSeq : `unused ${row.from}`}
              ref={list.measureElement}
              data-index={item.index}
              className={virtual.row}
              style={{ transform: `translateY(${item.start}px)` }}
            >
              {row.kind === "unused" ? (
                <p className={css.hole}>{m.events.unused(row.from, row.to)}</p>
              ) : (
                <EventRow
                  event={row.event}
                  after={row.after}
                  open={open === row.event.runSeq}
                  toggle={() => choose(row.event.runSeq)}
                />
              )}
            </li>
          );
        })}
      </ol>
    </div>
  );
}

interface EventRowProps {
  event: RunEvent;
  after: number | null;
  open: boolean;
  toggle: () => void;
}

function EventRow({ event, after, open, toggle }: EventRowProps) {
  const store = useRunStore();
  const summary = summaryIn(store, event);
  return (
    <>
      <button
        type="button"
        className={css.row}
        aria-expanded={open}
        onClick={toggle}
        data-event={event.eventType}
        data-seq={event.runSeq}
      >
        <span className={css.seq}>{event.runSeq}</span>
        <Time at={event.persistedAt} format="precise" />
        <span className={css.after}>{after === null ? "" : sinceLast(after)}</span>
        <strong className={css.type} title={event.eventType}>
          {m.events.type(event.eventType)}
        </strong>
        <span className={css.summary}>{summary}</span>
        <span className={`${prose.clip} ${css.actor}`}>{decisionOf(event).who}</span>
      </button>
      {open && <pre className={`${prose.said} ${css.payload}`}>{JSON.stringify(event.payload, null, 2)}</pre>}
    </>
  );
}

/** The time since the event before: "+1.2 s", and "< 0.1 s" without a sign, which would read as a sum. */
function sinceLast(ms: number): string {
  const words = duration(ms);
  return words.startsWith("<") ? words : `+${words}`;
}
