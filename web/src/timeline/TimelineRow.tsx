import { memo } from "react";
import type { Instant } from "../format/format";
import type { Step } from "../api/model";
import { stepWords } from "../status/stepLabel";
import { pictures } from "../messages/pictures";
import { useRunStore, useStep } from "../runstate/context";
import { attemptName, duration } from "../format/format";
import { stepLook, stepLookIn } from "../status/look";
import { Name } from "../ui/Name";
import { StatusIcon } from "../ui/Status";
import { besideBar, percent, type Scale } from "./axis";
import { type Segment, segmentsOf } from "./segments";
import prose from "../styles/Prose.module.css";
import virtual from "../styles/Virtual.module.css";
import css from "./Timeline.module.css";

interface TimelineRowProps {
  id: string;
  index: number;
  top: number;
  span: Scale;
  /** 0 for a row that does not change with time, so that it is not drawn again. */
  now: Instant;
  ready: Instant | null;
  /** The run waits for an operator now. */
  awaits: boolean;
  /** The number of steps that wait behind it when it failed. */
  blocks: number;
  critical: boolean;
  /** The critical path is marked, and the step is not on it. */
  dimmed: boolean;
  /** The usual duration of the step, in milliseconds. */
  median: number | undefined;
  chosen: boolean;
  choose: (stepId: string) => void;
}

/** The segments of one step. An open segment ends now; now stands still while the view is stale. */
export const TimelineRow = memo(function TimelineRow({
  id,
  index,
  top,
  span,
  now,
  ready,
  awaits,
  blocks,
  critical,
  dimmed,
  median,
  chosen,
  choose,
}: TimelineRowProps) {
  const store = useRunStore();
  const step = useStep(id);
  if (!step) return null;
  const segments = segmentsOf(step, ready, awaits).filter(({ from, to }) => from < span.to && (to ?? now) > span.from);
  // The duration is that of the work, and of a wait for a person only when there is no other.
  const last =
    segments.findLast(({ kind }) => kind === "running") ?? segments.findLast(({ kind }) => kind === "person");
  // The number stands behind all bars, so that it covers none.
  const behind = Math.max(...segments.map(({ to }) => percent(to ?? now, span)));
  const end = last ? Math.min(100, behind) : 0;
  const usual = last?.kind === "running" && median !== undefined ? percent(last.from + median, span) : null;
  const words = (segment: Segment): string => segmentWords(segment, now, store.frozen());
  return (
    <div
      role="row"
      aria-rowindex={index + 2}
      className={`${virtual.row} ${css.row}`}
      data-chosen={chosen || undefined}
      data-critical={critical || undefined}
      data-dimmed={dimmed || undefined}
      style={{ transform: `translateY(${top}px)` }}
    >
      <span role="cell" className={css.name}>
        <StatusIcon look={stepLookIn(step, store.header())} size={14} />
        <button
          type="button"
          className={virtual.name}
          aria-label={stepWords(step, blocks, false)}
          onClick={() => choose(id)}
          title={id}
        >
          <Name text={step.name ?? id} />
        </button>
      </span>
      <span role="cell" className={css.track}>
        <span className={prose.hidden}>{rowWords(step, segments.map(words), critical)}</span>
        {segments.map((segment) => {
          const left = Math.max(0, percent(segment.from, span));
          const right = Math.min(100, percent(segment.to ?? now, span));
          return (
            <span
              key={`${segment.kind} ${segment.from}`}
              className={css.segment}
              data-kind={segment.kind}
              data-tone={segment.tone}
              data-open={segment.to === null || undefined}
              style={{ left: `${left}%`, width: `${Math.max(0, right - left)}%`, color: `var(--${segment.tone})` }}
              title={words(segment)}
              aria-hidden="true"
            />
          );
        })}
        {usual !== null && usual >= 0 && usual <= 100 && (
          <span className={css.usual} style={{ left: `${usual}%` }} aria-hidden="true" />
        )}
        {step.keptFrom && (
          <span className={css.took} style={{ left: 0 }} aria-hidden="true">
            {stepLook(step).word}
          </span>
        )}
        {last && end > 0 && (
          <span
            className={css.took}
            style={besideBar(percent(segments[0]?.from ?? last.from, span), end)}
            aria-hidden="true"
          >
            {duration((last.to ?? now) - last.from)}
          </span>
        )}
      </span>
    </div>
  );
});

function segmentWords({ kind, from, to, logicalAttemptId }: Segment, now: Instant, frozen: boolean): string {
  const took = `${to === null && frozen ? "≥ " : ""}${duration((to ?? now) - from)}`;
  return [pictures.timeline.kinds[kind], logicalAttemptId > 1 ? attemptName(logicalAttemptId) : null, took]
    .filter((part) => part !== null)
    .join(", ");
}

function rowWords(step: Step, segments: readonly string[], critical: boolean): string {
  return [stepLook(step).word, ...segments, critical ? pictures.timeline.onPath : null]
    .filter((part) => part !== null)
    .join("; ");
}
