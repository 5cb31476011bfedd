import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useReducer, useRef, useState } from "react";
import { follow } from "../api/follow";
import { RunEventsDocument, type RunEventsSubscriptionVariables } from "../api/gen/graphql";
import { type RunEvent, toEvent } from "../api/model";
import type { ApiError } from "../api/request";
import { m } from "../messages";
import { attemptName } from "../ui/format";
import { Notice, Problem, Skeleton } from "../ui/Page";
import { Time } from "../ui/Time";
import { collectEvents, NO_EVENTS } from "../runs/events";
import css from "./Events.module.css";

const ROW = 32;

/** The log, every fact of it, as it grows. */
export function Events({ runId }: { runId: string }) {
  const [log, add] = useReducer(collectEvents, NO_EVENTS);
  const [error, setError] = useState<ApiError | null>(null);
  const [open, setOpen] = useState<number | null>(null);
  const [attempt, setAttempt] = useState(0);
  useEffect(() => {
    const variables: RunEventsSubscriptionVariables = { runId, after: 0, storeEpoch: null };
    add({ reset: true, events: [] });
    const stream = follow(RunEventsDocument, variables, {
      next: ({ runEvents }) => {
        const events = runEvents.events.map(toEvent);
        variables.storeEpoch = runEvents.storeEpoch;
        variables.after = events.at(-1)?.runSeq ?? (runEvents.reset ? 0 : variables.after ?? 0);
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
  const pane = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({ count: log.events.length, getScrollElement: () => pane.current, estimateSize: () => ROW, overscan: 12 });

  if (error) return <Problem error={error} retry={() => (setError(null), setAttempt(attempt + 1))} />;
  if (!log.received) return <Skeleton rows={6} label={m.run.tabs.events} />;
  if (log.events.length === 0) return <Notice title={m.events.empty} />;
  return (
    <div>
      {log.dropped > 0 && <p className={css.note}>{m.events.dropped(log.dropped)}</p>}
      {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling region must be reachable by keyboard */}
      <div ref={pane} className={css.pane} role="region" aria-label={m.run.tabs.events} tabIndex={0}>
        <ol className={css.extent} style={{ height: rows.getTotalSize() }}>
          {rows.getVirtualItems().map((item) => {
            // Newest first: what just happened is what one looks for.
            const at = log.events.length - 1 - item.index;
            const event = log.events[at];
            const before = log.events[at - 1];
            return event === undefined ? null : (
              <li key={event.runSeq} ref={rows.measureElement} data-index={item.index} className={css.item} style={{ transform: `translateY(${item.start}px)` }}>
                <EventRow event={event} open={open === event.runSeq} toggle={() => setOpen(open === event.runSeq ? null : event.runSeq)} />
                {before && event.runSeq - before.runSeq > 1 && <p className={css.hole}>{m.events.unused(before.runSeq + 1, event.runSeq - 1)}</p>}
              </li>
            );
          })}
        </ol>
      </div>
    </div>
  );
}

function EventRow({ event, open, toggle }: { event: RunEvent; open: boolean; toggle: () => void }) {
  return (
    <>
      <button type="button" className={css.row} aria-expanded={open} onClick={toggle} data-event={event.eventType}>
        <span className={css.seq}>{event.runSeq}</span>
        <Time at={event.persistedAt} format="precise" />
        <strong className={css.type}>{event.eventType}</strong>
        <span className={css.subject}>
          {event.stepId} {event.logicalAttemptId > 1 && attemptName(event.logicalAttemptId)}
        </span>
        <span className={css.actor}>{event.emittedBy}</span>
      </button>
      {open && <pre className={css.payload}>{JSON.stringify(event.payload, null, 2)}</pre>}
    </>
  );
}
