import { memo } from "react";
import type { Instant } from "../format/format";
import { attemptWord, stepWords } from "../status/stepLabel";
import { m } from "../messages";
import { pictures } from "../messages/pictures";
import { useRunStore, useStep } from "../runstate/context";
import { type Pace, paceOf } from "../step/medians";
import { beganAt } from "../timeline/segments";
import { duration } from "../format/format";
import { stepLookIn } from "../status/look";
import { Name } from "../ui/Name";
import { StatusBadge } from "../ui/Status";
import { useTick } from "../ui/Time";
import prose from "../styles/Prose.module.css";
import virtual from "../styles/Virtual.module.css";
import css from "./StepsGrid.module.css";
import { stepTook, triesWord } from "../step/stepWords";
import { lookWithTry, tryWords, useNextTry } from "../waits/retries";

interface StepRowProps {
  stepId: string;
  index: number;
  top: number;
  chosen: boolean;
  selected: boolean;
  tabStop: boolean;
  /**
   * Facts from other steps: since when the step is ready, why it waits, and the number of steps behind it when it
   * failed.
   */
  ready: Instant | null;
  wait: string | null;
  blocks: number;
  /** The median duration, in milliseconds. */
  median: number | undefined;
  choose: (stepId: string) => void;
  turn: (stepId: string, range: boolean) => void;
}

export const StepRow = memo(function StepRow({
  stepId,
  index,
  top,
  chosen,
  selected,
  tabStop,
  ready,
  wait,
  blocks,
  median,
  choose,
  turn,
}: StepRowProps) {
  const store = useRunStore();
  const step = useStep(stepId);
  useTick(1_000, step?.status === "RUNNING" || (step?.status === "PENDING" && ready !== null));
  const next = useNextTry(stepId);
  if (!step) return null;
  const began = beganAt(step);
  // A kept step did not run here, so it did not wait either.
  const waited = ready === null || step.keptFrom ? null : Math.max(0, (began ?? store.now()) - ready);
  const look = lookWithTry(stepLookIn(step, store.header()), next);
  return (
    <div
      role="row"
      aria-rowindex={index + 2}
      data-index={index}
      className={`${virtual.row} ${css.row}`}
      data-chosen={chosen || undefined}
      data-selected={selected || undefined}
      style={{ transform: `translateY(${top}px)` }}
    >
      <span role="cell" data-column="select">
        <input
          type="checkbox"
          tabIndex={-1}
          aria-label={pictures.grid.select(step.name ?? stepId)}
          checked={selected}
          onChange={(event) => turn(stepId, event.nativeEvent instanceof MouseEvent && event.nativeEvent.shiftKey)}
        />
      </span>
      <span role="cell" data-column="status">
        {/* The column of the cause has the run that a kept result is from. */}
        <StatusBadge look={step.keptFrom ? { ...look, word: m.status.kept } : look} />
      </span>
      <span role="cell" data-column="step" className={prose.clip}>
        <button
          type="button"
          className={virtual.name}
          tabIndex={tabStop ? 0 : -1}
          aria-label={stepWords(step, blocks, false)}
          onClick={() => choose(stepId)}
          title={stepId}
        >
          <Name text={step.name ?? stepId} />
        </button>
      </span>
      <span role="cell" data-column="type" className={css.quiet}>
        {step.type}
      </span>
      <span role="cell" data-column="group" className={`${css.quiet} ${prose.clip}`} title={step.group ?? undefined}>
        {step.group}
      </span>
      <span role="cell" data-column="attempt" className={css.quiet}>
        {attemptWord(step)}
      </span>
      <span role="cell" data-column="waited" className={css.number}>
        {waited !== null &&
          (began !== null || step.status === "PENDING") &&
          `${began === null && store.frozen() ? "≥ " : ""}${duration(waited)}`}
      </span>
      <span role="cell" data-column="took" className={css.number}>
        {stepTook(step, store)}
      </span>
      <span role="cell" data-column="median" className={css.pace}>
        {triesWord(step.attempts.at(-1)) ?? <PaceWords pace={paceOf(step, median, store.now())} median={median} />}
      </span>
      <span role="cell" data-column="cause" className={prose.clip}>
        {step.status === "FAILED" && step.error ? (
          <span title={step.error.message ?? ""}>
            <code>{step.error.code}</code> <span className={css.quiet}>{firstLine(step.error.message)}</span>
          </span>
        ) : (
          <span className={css.quiet} title={wait ?? undefined}>
            {step.keptFrom ? look.word : next === null ? wait : tryWords(next, store.now())}
          </span>
        )}
      </span>
    </div>
  );
});

function firstLine(message: string | null): string {
  return message?.trim().split("\n", 1)[0] ?? "";
}

/** The comparison as a sign and a word; the colour only repeats them. */
function PaceWords({ pace, median }: { pace: Pace | null; median: number | undefined }) {
  if (pace === null || median === undefined) return null;
  return (
    <span data-pace={pace.kind} title={pictures.grid.medianOf(duration(median))}>
      {pace.kind === "usual"
        ? pictures.grid.pace.usual
        : pace.kind === "slower"
          ? pictures.grid.pace.slower(duration(pace.byMs), pace.times)
          : pictures.grid.pace.faster(duration(pace.byMs))}
    </span>
  );
}
