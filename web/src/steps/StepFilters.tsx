import { useMemo, useRef, useSyncExternalStore } from "react";
import { m } from "../messages";
import { pictures } from "../messages/pictures";
import { useHeader, useOrder, useRunStore } from "../runstate/context";
import { groupsOf, type StepQuery } from "./selection";
import { STEP_FILTERS, type StepFilter } from "../address/views";
import { Button } from "../ui/Button";
import type { RunHeader } from "../api/model";
import { ended } from "../status/look";
import { holdOf } from "../topology/hold";
import { count } from "../format/format";
import { useKeys } from "../ui/keys";
import pills from "../styles/Pill.module.css";
import css from "./StepsGrid.module.css";

const WORDS: Record<StepFilter, string> = {
  FAILED: m.status.failed,
  WAITING: pictures.mosaic.groups.waiting,
  RUNNING: m.status.running,
  PENDING: m.status.pending,
  HELD: pictures.grid.held,
  BLOCKED: pictures.grid.blocked,
  SUCCESS: m.status.succeeded,
  SKIPPED: m.status.skipped,
};
// The API counts a step that waits for a person as running, so these two are counted here.
const KEYS = {
  FAILED: "failed",
  WAITING: null,
  RUNNING: null,
  PENDING: "pending",
  HELD: null,
  BLOCKED: null,
  SUCCESS: "success",
  SKIPPED: "skipped",
} as const;
const NOT_DONE: readonly StepFilter[] = ["FAILED", "WAITING", "RUNNING", "PENDING"];

/**
 * The word of a filter. What a cancellation ended has not failed, what has not started then never will, and a kept
 * result has not succeeded in this run.
 */
function wordOf(filter: StepFilter, header: RunHeader | null): string {
  if (header === null) return WORDS[filter];
  const { failed, stopped, success, kept } = header.stepCounts;
  if (filter === "SUCCESS" && kept > 0) return kept < success ? pictures.grid.succeededOrKept : m.status.kept;
  if (filter === "FAILED" && stopped > 0)
    return stopped < failed ? pictures.grid.failedOrCancelled : m.status.cancelled;
  return filter === "PENDING" && ended(header) ? m.status.neverStarted : WORDS[filter];
}

/** The filters of the table of steps, which the address holds. */
export function StepFilters({ query, setQuery }: { query: StepQuery; setQuery: (query: StepQuery) => void }) {
  const store = useRunStore();
  const header = useHeader();
  const order = useOrder();
  const tally = useSyncExternalStore(store.subscribe, store.tally);
  const groups = useMemo(() => groupsOf(order, (id) => store.step(id)), [store, order]);
  const { show } = query;
  const hold = holdOf(store);
  const field = useRef<HTMLInputElement>(null);
  useKeys({ f: { does: pictures.grid.find, run: () => field.current?.focus() } });
  const counted = (filter: StepFilter): number => {
    const key = KEYS[filter];
    if (key !== null) return header?.stepCounts[key] ?? 0;
    if (filter === "HELD") return hold.held.size;
    if (filter === "BLOCKED") return hold.needs.size;
    return tally[filter === "RUNNING" ? "running" : "waiting"];
  };
  const filters = STEP_FILTERS.filter(
    (filter) => (filter !== "HELD" && filter !== "BLOCKED") || counted(filter) > 0 || show.includes(filter),
  );
  const hidesDone = show.length === NOT_DONE.length && NOT_DONE.every((filter) => show.includes(filter));
  return (
    <div className={`${pills.pills} ${css.filters}`} role="group" aria-label={pictures.grid.show}>
      {filters.map((filter) => (
        <button
          key={filter}
          type="button"
          className={`${pills.pill} ${css.filter}`}
          aria-pressed={show.includes(filter)}
          data-none={(counted(filter) === 0 && !show.includes(filter)) || undefined}
          onClick={() =>
            setQuery({
              ...query,
              show: show.includes(filter) ? show.filter((other) => other !== filter) : [...show, filter],
            })
          }
        >
          {wordOf(filter, header)} <span className={css.n}>{count(counted(filter))}</span>
        </button>
      ))}
      <Button kind="quiet" pressed={hidesDone} onClick={() => setQuery({ ...query, show: hidesDone ? [] : NOT_DONE })}>
        {m.step.hideDone}
      </Button>
      <Button
        kind="quiet"
        pressed={query.sort === "failed"}
        onClick={() => setQuery({ ...query, sort: query.sort === "failed" ? "plan" : "failed" })}
      >
        {pictures.grid.failedFirst}
      </Button>
      <span className={css.push}>
        {groups.length > 0 && (
          <select
            className={css.field}
            aria-label={pictures.grid.group}
            value={query.group ?? ""}
            onChange={(event) => setQuery({ ...query, group: event.target.value === "" ? null : event.target.value })}
          >
            <option value="">{pictures.grid.allGroups}</option>
            {groups.map((group) => (
              <option key={group} value={group}>
                {group}
              </option>
            ))}
          </select>
        )}
        <input
          ref={field}
          className={css.field}
          type="search"
          aria-label={pictures.grid.find}
          placeholder={pictures.grid.find}
          value={query.find}
          maxLength={200}
          onChange={(event) => setQuery({ ...query, find: event.target.value })}
        />
      </span>
    </div>
  );
}
