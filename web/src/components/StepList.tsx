import { useVirtualizer } from "@tanstack/react-virtual";
import { memo, useMemo, useRef, useSyncExternalStore } from "react";
import type { Step } from "../api/model";
import { m } from "../messages";
import { useHeader, useOrder, useRunStore, useStep } from "../runs/context";
import type { RunStore } from "../runs/store";
import { standingOf } from "../runs/standing";
import { STEP_FILTERS, type StepFilter } from "../runs/views";
import { attemptName, count, duration, ticking } from "../ui/format";
import { stepLook } from "../ui/look";
import { Notice } from "../ui/Page";
import { StatusBadge } from "../ui/Status";
import { useTick } from "../ui/Time";
import css from "./StepList.module.css";

const ROW = 32;

interface StepListProps {
  chosen: string | null;
  choose: (stepId: string) => void;
  /** Empty shows all. */
  filter: readonly StepFilter[];
  setFilter: (filter: StepFilter[]) => void;
}

const WORDS: Record<StepFilter, string> = {
  FAILED: m.status.failed,
  WAITING: m.mosaic.standing.waiting,
  RUNNING: m.status.running,
  PENDING: m.status.pending,
  SUCCESS: m.status.succeeded,
  SKIPPED: m.status.skipped,
};
const KEYS = { FAILED: "failed", WAITING: null, RUNNING: "running", PENDING: "pending", SUCCESS: "success", SKIPPED: "skipped" } as const;

/** The same steps as the graph, as a table: every status in words, and the accessible equivalent of the picture. */
export function StepList({ chosen, choose, filter, setFilter }: StepListProps) {
  const store = useRunStore();
  const header = useHeader();
  const order = useOrder();
  useSyncExternalStore(store.subscribe, store.header);
  const shown = useMemo(() => {
    const wanted = new Set<string>(filter);
    return wanted.size === 0 ? order : order.filter((id) => passes(store.step(id), wanted));
    // The header moves whenever a step does.
    // oxlint-disable-next-line react/exhaustive-deps
  }, [store, order, filter, header]);
  const counted = (status: StepFilter): number => {
    const key = KEYS[status];
    return key === null ? store.tally().waiting : (header?.stepCounts[key] ?? 0);
  };
  const pane = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({ count: shown.length, getScrollElement: () => pane.current, estimateSize: () => ROW, overscan: 12 });
  return (
    <div>
      <div className={css.filters} role="group" aria-label="Show steps">
        {STEP_FILTERS.map((status) => (
          <button
            key={status}
            type="button"
            className={css.filter}
            aria-pressed={filter.includes(status)}
            onClick={() => setFilter(filter.includes(status) ? filter.filter((other) => other !== status) : [...filter, status])}
          >
            {WORDS[status]} <span className={css.n}>{count(counted(status))}</span>
          </button>
        ))}
      </div>
      {shown.length === 0 ? (
        <Notice title={order.length === 0 ? m.run.notStarted : m.step.noneMatch} />
      ) : (
        <div ref={pane} className={css.pane} role="table" aria-label={m.run.tabs.steps} aria-rowcount={shown.length + 1}>
          <div role="rowgroup">
            <div role="row" className={css.head} aria-rowindex={1}>
              <span role="columnheader">Status</span>
              <span role="columnheader">Step</span>
              <span role="columnheader">Type</span>
              <span role="columnheader">Attempt</span>
              <span role="columnheader">Took</span>
              <span role="columnheader">Error or wait</span>
            </div>
          </div>
          <div role="rowgroup" className={css.extent} style={{ height: rows.getTotalSize() }}>
            {rows.getVirtualItems().map((item) => {
              const id = shown[item.index];
              return id === undefined ? null : (
                <StepRow key={id} stepId={id} index={item.index} top={item.start} chosen={id === chosen} choose={choose} />
              );
            })}
          </div>
        </div>
      )}
    </div>
  );
}

function passes(step: Step | undefined, wanted: ReadonlySet<string>): boolean {
  return step !== undefined && (wanted.has(step.status) || (wanted.has("WAITING") && standingOf(step) === "waiting"));
}

/** How long the latest attempt has taken, "≥" when it runs and now is not known. */
export function stepTook(step: Pick<Step, "startedAt" | "completedAt" | "durationMs" | "status">, store: RunStore): string | null {
  if (step.durationMs !== null) return duration(step.durationMs);
  if (step.startedAt === null) return null;
  if (step.completedAt !== null) return duration(step.completedAt - step.startedAt);
  return `${store.frozen() ? "≥ " : ""}${ticking(store.now() - step.startedAt)}`;
}

/** Why a step is not running, in words. */
export function waitWords(step: Step): string | null {
  if (!step.wait) return null;
  const { kind, blockingSteps, who } = step.wait;
  const more = blockingSteps.length > 3 ? ` and ${blockingSteps.length - 3} more` : "";
  const blocking = blockingSteps.length > 0 ? `: ${blockingSteps.slice(0, 3).join(", ")}${more}` : "";
  return `${m.step.wait[kind]}${blocking}${who ? ` (${who})` : ""}`;
}

interface StepRowProps {
  stepId: string;
  index: number;
  top: number;
  chosen: boolean;
  choose: (stepId: string) => void;
}

const StepRow = memo(function StepRow({ stepId, index, top, chosen, choose }: StepRowProps) {
  const store = useRunStore();
  const step = useStep(stepId);
  useTick(1_000, step?.status === "RUNNING");
  if (!step) return null;
  return (
    <div role="row" aria-rowindex={index + 2} className={css.row} data-chosen={chosen || undefined} style={{ transform: `translateY(${top}px)` }}>
      <span role="cell">
        <StatusBadge look={stepLook(step)} />
      </span>
      <span role="cell" className={css.clip}>
        <button type="button" className={css.name} onClick={() => choose(stepId)} title={stepId}>
          {step.name ?? stepId}
        </button>
      </span>
      <span role="cell" className={css.quiet}>
        {step.type}
      </span>
      <span role="cell" className={css.quiet}>
        {step.logicalAttemptId > 1 ? attemptName(step.logicalAttemptId) : ""}
      </span>
      <span role="cell">{stepTook(step, store)}</span>
      <span role="cell" className={css.clip}>
        {step.status === "FAILED" && step.error ? <code title={step.error.message ?? ""}>{step.error.code}</code> : <span className={css.quiet}>{step.skip?.reason ?? step.skip?.reasonCode ?? waitWords(step)}</span>}
      </span>
    </div>
  );
});
