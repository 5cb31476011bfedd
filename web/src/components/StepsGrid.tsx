import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, memo, useMemo, useRef, useState } from "react";
import { m } from "../messages";
import { useHeader, useOrder, useRunStore, useStep } from "../runs/context";
import { nextFailed } from "../runs/failed";
import { matches, sortSteps, type StepQuery } from "../runs/selection";
import { beganAt, readyAt } from "../timeline/segments";
import { attemptName, duration } from "../ui/format";
import { useKeys } from "../ui/keys";
import { stepLook } from "../ui/look";
import { Notice } from "../ui/Page";
import { StatusBadge } from "../ui/Status";
import { useTick } from "../ui/Time";
import { StepFilters } from "./StepFilters";
import css from "./StepsGrid.module.css";
import { stepTook, waitWords } from "./stepWords";

const ROW = 32;
const COLUMNS = m.grid.columns;

interface StepsGridProps {
  chosen: string | null;
  choose: (stepId: string) => void;
  query: StepQuery;
  setQuery: (query: StepQuery) => void;
}

/** The same steps as the pictures, as a table: every status in words. One stop for the Tab key; arrow keys go from row to row. */
export function StepsGrid({ chosen, choose, query, setQuery }: StepsGridProps) {
  const store = useRunStore();
  const header = useHeader();
  const order = useOrder();
  const [sorting, setSorting] = useState(0);
  // Sorted when it is asked for: rows do not change places under the pointer.
  // oxlint-disable-next-line react/exhaustive-deps
  const sorted = useMemo(() => sortSteps(order, (id) => store.step(id), query.sort), [store, order, query.sort, sorting]);
  const shown = useMemo(() => {
    if (query.show.length === 0 && query.find === "" && query.group === null) return sorted;
    return sorted.filter((id) => {
      const step = store.step(id);
      return step !== undefined && matches(step, query);
    });
    // The header moves whenever a step does.
    // oxlint-disable-next-line react/exhaustive-deps
  }, [store, sorted, query.show, query.find, query.group, header]);
  const pane = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({ count: shown.length, getScrollElement: () => pane.current, estimateSize: () => ROW, overscan: 8 });

  const [active, setActive] = useState<string | null>(null);
  const at = Math.max(0, shown.indexOf(active ?? chosen ?? ""));
  const go = (to: number): void => {
    const index = Math.max(0, Math.min(shown.length - 1, to));
    setActive(shown[index] ?? null);
    rows.scrollToIndex(index);
    requestAnimationFrame(() => requestAnimationFrame(() => pane.current?.querySelector<HTMLElement>(`[data-index="${index}"] button`)?.focus({ preventScroll: true })));
  };
  const page = Math.max(1, Math.floor((pane.current?.clientHeight ?? 0) / ROW) - 2);
  const failed = (way: 1 | -1): void => {
    const to = nextFailed(store, shown[at] ?? null, way, shown);
    if (to !== null) go(shown.indexOf(to));
  };
  useKeys({
    j: { does: m.grid.down, run: () => go(at + 1), repeats: true },
    k: { does: m.grid.up, run: () => go(at - 1), repeats: true },
    n: { does: m.graph.nextFailed, run: () => failed(1), repeats: true },
    N: { does: m.graph.previousFailed, run: () => failed(-1), repeats: true },
    "=": { does: m.mosaic.sort, run: () => setSorting(sorting + 1) },
  });
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.metaKey || event.ctrlKey || event.altKey) return;
    const moves: Record<string, number> = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: shown.length - 1 };
    const to = moves[event.key];
    if (to === undefined) return;
    event.preventDefault();
    go(to);
  };

  return (
    <div>
      <StepFilters query={query} setQuery={setQuery} />
      {shown.length === 0 ? (
        <Notice title={order.length === 0 ? m.run.notStarted : m.step.noneMatch} />
      ) : (
        <div ref={pane} className={css.pane} role="table" aria-label={m.grid.label(shown.length, order.length)} aria-rowcount={shown.length + 1} onKeyDown={onKeyDown}>
          <div role="rowgroup" className={css.sticky}>
            <div role="row" className={css.head} aria-rowindex={1}>
              {Object.entries(COLUMNS).map(([name, words]) => (
                <span key={name} role="columnheader" data-column={name}>
                  {words}
                </span>
              ))}
            </div>
          </div>
          <div role="rowgroup" className={css.extent} style={{ height: rows.getTotalSize() }}>
            {rows.getVirtualItems().map((item) => {
              const id = shown[item.index];
              return id === undefined ? null : (
                <StepRow key={id} stepId={id} index={item.index} top={item.start} chosen={id === chosen} tabStop={item.index === at} choose={choose} />
              );
            })}
          </div>
        </div>
      )}
    </div>
  );
}

interface StepRowProps {
  stepId: string;
  index: number;
  top: number;
  chosen: boolean;
  tabStop: boolean;
  choose: (stepId: string) => void;
}

const StepRow = memo(function StepRow({ stepId, index, top, chosen, tabStop, choose }: StepRowProps) {
  const store = useRunStore();
  const header = useHeader();
  const step = useStep(stepId);
  useTick(1_000, step?.status === "RUNNING");
  if (!step) return null;
  const began = beganAt(step);
  const ready = readyAt(step, (id) => store.step(id), header?.startedAt ?? null);
  const waited = ready === null ? null : Math.max(0, (began ?? store.now()) - ready);
  const wait = step.skip?.reason ?? step.skip?.reasonCode ?? waitWords(step, store);
  return (
    <div role="row" aria-rowindex={index + 2} data-index={index} className={css.row} data-chosen={chosen || undefined} style={{ transform: `translateY(${top}px)` }}>
      <span role="cell" data-column="status">
        <StatusBadge look={stepLook(step)} />
      </span>
      <span role="cell" data-column="step" className={css.clip}>
        <button type="button" className={css.name} tabIndex={tabStop ? 0 : -1} onClick={() => choose(stepId)} title={stepId}>
          {step.name ?? stepId}
        </button>
      </span>
      <span role="cell" data-column="type" className={css.quiet}>
        {step.type}
      </span>
      <span role="cell" data-column="group" className={`${css.quiet} ${css.clip}`} title={step.group ?? undefined}>
        {step.group}
      </span>
      <span role="cell" data-column="attempt" className={css.quiet}>
        {step.logicalAttemptId > 1 ? attemptName(step.logicalAttemptId) : ""}
      </span>
      <span role="cell" data-column="waited" className={css.number}>
        {waited !== null && (began !== null || step.status === "PENDING") && `${began === null && store.frozen() ? "≥ " : ""}${duration(waited)}`}
      </span>
      <span role="cell" data-column="took" className={css.number}>
        {stepTook(step, store)}
      </span>
      <span role="cell" data-column="cause" className={css.clip}>
        {step.status === "FAILED" && step.error ? (
          <code title={step.error.message ?? ""}>{step.error.code}</code>
        ) : (
          <span className={css.quiet} title={wait ?? undefined}>
            {wait}
          </span>
        )}
      </span>
    </div>
  );
});
