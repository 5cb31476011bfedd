import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, useEffect, useMemo, useRef, useState } from "react";
import { holdOf } from "../topology/hold";
import { useBlocks } from "../topology/useBlocks";
import type { Step } from "../api/model";
import { m } from "../messages";
import { pictures } from "../messages/pictures";
import { useHeader, useOrder, useRunStore } from "../runstate/context";
import { nextFailed } from "../runstate/failed";
import { type Medians, useMedians } from "../step/medians";
import { matches, sortSteps, type StepQuery } from "./selection";
import type { StepSort } from "../address/views";
import { readyAt } from "../timeline/segments";
import { useKeys } from "../ui/keys";
import { Notice } from "../ui/Page";
import virtual from "../styles/Virtual.module.css";
import { StepFilters } from "./StepFilters";
import { StepRow } from "./StepRow";
import { StepsBar } from "./StepsBar";
import css from "./StepsGrid.module.css";
import { noSteps } from "../status/runWords";
import { attemptWord } from "../status/stepLabel";
import { triesWord, waitWords } from "../step/stepWords";
import { useSelection } from "../ui/useSelection";

const [ROW, TWO_LINES] = [32, 60];
const COLUMNS = pictures.grid.columns;
/** The columns by which the table can be sorted. */
const SORTS: Readonly<Partial<Record<string, StepSort>>> = { status: "failed", took: "took", median: "median" };

interface StepsGridProps {
  chosen: string | null;
  choose: (stepId: string) => void;
  query: StepQuery;
  setQuery: (query: StepQuery) => void;
  /** The table has room for few columns. */
  narrow: boolean;
}

/** The steps as a table, with every status in words. It is one stop of the Tab key; arrow keys go from row to row. */
export function StepsGrid({ chosen, choose, query, setQuery, narrow }: StepsGridProps) {
  const store = useRunStore();
  const header = useHeader();
  const order = useOrder();
  const medians = useMedians(header && order.length > 0 && !narrow ? { runId: header.runId } : null) ?? null;
  const blocks = useBlocks();
  const [sorting, setSorting] = useState(0);
  // Sorted on request only, so that rows do not move under the pointer.
  const sorted = useMemo(
    () => sortSteps(order, (id) => store.step(id), query.sort, { now: store.now(), medians }),
    // oxlint-disable-next-line react/exhaustive-deps
    [store, order, query.sort, medians, sorting],
  );
  const shown = useMemo(() => {
    if (query.show.length === 0 && query.find === "" && query.group === null) return sorted;
    const hold = holdOf(store);
    return sorted.filter((id) => {
      const step = store.step(id);
      return step !== undefined && matches(step, query, hold);
    });
    // The header changes with every step.
    // oxlint-disable-next-line react/exhaustive-deps
  }, [store, sorted, query.show, query.find, query.group, header]);
  const pane = useRef<HTMLDivElement>(null);
  const height = narrow ? TWO_LINES : ROW;
  const rows = useVirtualizer({
    count: shown.length,
    getScrollElement: () => pane.current,
    estimateSize: () => height,
    overscan: 8,
  });
  useEffect(() => rows.measure(), [rows, height]);

  const empty = emptyColumns(
    order.flatMap((id) => store.step(id) ?? []),
    medians,
  );
  const { selected: meant, turn, turnAll, clear } = useSelection(shown);
  const all = shown.length > 0 && meant.size === shown.length;
  const [active, setActive] = useState<string | null>(null);
  const at = Math.max(0, shown.indexOf(active ?? chosen ?? ""));
  const go = (to: number): void => {
    const index = Math.max(0, Math.min(shown.length - 1, to));
    setActive(shown[index] ?? null);
    rows.scrollToIndex(index);
    requestAnimationFrame(() =>
      requestAnimationFrame(() =>
        pane.current?.querySelector<HTMLElement>(`[data-index="${index}"] button`)?.focus({ preventScroll: true }),
      ),
    );
  };
  const page = Math.max(1, Math.floor((pane.current?.clientHeight ?? 0) / height) - 2);
  const failed = (way: 1 | -1): void => {
    const to = nextFailed(store, shown[at] ?? null, way, shown);
    if (to !== null) go(shown.indexOf(to));
  };
  const select = (range: boolean): void => {
    const id = shown[at];
    if (id === undefined) return;
    turn(id, range);
    // When no row has had the focus, the selected row is shown.
    if (active === null) go(at);
  };
  useKeys({
    j: { does: pictures.grid.down, run: () => go(at + 1), repeats: true },
    k: { does: pictures.grid.up, run: () => go(at - 1), repeats: true },
    n: { does: pictures.graph.nextFailed, run: () => failed(1), repeats: true },
    N: { does: pictures.graph.previousFailed, run: () => failed(-1), repeats: true },
    x: { does: m.keys.select, run: () => select(false) },
    X: { does: m.keys.selectRange, run: () => select(true) },
    ...(meant.size > 0 ? { Escape: { does: m.keys.clear, run: clear } } : {}),
    "=": { does: pictures.mosaic.sort, run: () => setSorting(sorting + 1) },
  });
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.metaKey || event.ctrlKey || event.altKey) return;
    const moves: Record<string, number> = {
      ArrowDown: at + 1,
      ArrowUp: at - 1,
      PageDown: at + page,
      PageUp: at - page,
      Home: 0,
      End: shown.length - 1,
    };
    const to = moves[event.key];
    if (to === undefined) return;
    event.preventDefault();
    go(to);
  };

  return (
    <div className={css.frame} data-empty={empty.join(" ") || undefined}>
      <StepFilters query={query} setQuery={setQuery} />
      {shown.length === 0 ? (
        <Notice title={header && order.length === 0 ? noSteps(header) : m.step.noneMatch} />
      ) : (
        <div
          ref={pane}
          className={virtual.pane}
          role="table"
          aria-label={pictures.grid.label(shown.length, order.length)}
          aria-rowcount={shown.length + 1}
          onKeyDown={onKeyDown}
        >
          <div role="rowgroup" className={css.sticky}>
            <div role="row" className={css.head} aria-rowindex={1}>
              <span role="columnheader" data-column="select">
                <input
                  type="checkbox"
                  aria-label={pictures.grid.selectAll}
                  checked={all}
                  ref={(box) => {
                    if (box) box.indeterminate = !all && meant.size > 0;
                  }}
                  onChange={() => turnAll(!all)}
                />
              </span>
              {Object.entries(COLUMNS).map(([name, words]) => (
                <span
                  key={name}
                  role="columnheader"
                  data-column={name}
                  aria-sort={SORTS[name] !== undefined && SORTS[name] === query.sort ? "descending" : undefined}
                >
                  {SORTS[name] === undefined ? (
                    words
                  ) : (
                    <SortButton words={words} by={SORTS[name]} query={query} setQuery={setQuery} />
                  )}
                </span>
              ))}
            </div>
          </div>
          <div role="rowgroup" className={virtual.extent} style={{ height: rows.getTotalSize() }}>
            {rows.getVirtualItems().map((item) => {
              const id = shown[item.index];
              const step = id === undefined ? undefined : store.step(id);
              if (id === undefined || !step) return null;
              return (
                <StepRow
                  key={id}
                  stepId={id}
                  index={item.index}
                  top={item.start}
                  chosen={id === chosen}
                  selected={meant.has(id)}
                  tabStop={item.index === at}
                  ready={readyAt(step, (other) => store.step(other), header?.startedAt ?? null)}
                  wait={skipWords(step) ?? waitWords(step, store)}
                  blocks={blocks(id)}
                  median={medians?.get(id)}
                  choose={choose}
                  turn={turn}
                />
              );
            })}
          </div>
        </div>
      )}
      {header && <StepsBar runId={header.runId} selected={meant} clear={clear} />}
    </div>
  );
}

/** The columns that have nothing in any row. */
function emptyColumns(steps: readonly Step[], medians: Medians | null): string[] {
  return [
    steps.some(({ group }) => group !== null) ? "" : "group",
    steps.some((step) => attemptWord(step) !== null) ? "" : "attempt",
    (medians?.size ?? 0) > 0 || steps.some((step) => triesWord(step.attempts.at(-1)) !== null) ? "" : "median",
  ].filter((name) => name !== "");
}

interface SortButtonProps extends Pick<StepsGridProps, "query" | "setQuery"> {
  words: string;
  by: StepSort;
}

/** Sorts by a column, or by the plan again. */
function SortButton({ words, by, query, setQuery }: SortButtonProps) {
  const on = query.sort === by;
  return (
    <button
      type="button"
      className={css.sort}
      title={pictures.grid.sortBy(words)}
      onClick={() => setQuery({ ...query, sort: on ? "plan" : by })}
    >
      {words} {on && <span aria-hidden="true">↓</span>}
    </button>
  );
}

/** Why a step was skipped, in words, and the failure that it ended; null for one that was not. */
function skipWords({ skip, attempts }: Step): string | null {
  const why = skip && (skip.reason ?? m.events.skipped[skip.reasonCode] ?? skip.reasonCode);
  if (!why) return null;
  const said = why.charAt(0).toUpperCase() + why.slice(1);
  const failure = attempts.findLast(({ error }) => error !== null)?.error;
  return failure
    ? pictures.grid.skippedAfter(said, failure.code, failure.message?.trim().split("\n", 1)[0] ?? "")
    : said;
}
