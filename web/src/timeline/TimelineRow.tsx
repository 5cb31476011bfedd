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
import { besideBar, hasRoom, percent, roomOf, type Scale } from "./axis";
import { type Label, labelOf, type Segment, segmentsOf } from "./segments";
import { triesWord } from "../step/stepWords";
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
  /** Only the duration has room beside a bar. */
  narrow: boolean;
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
  narrow,
  choose,
}: TimelineRowProps) {
  const store = useRunStore();
  const step = useStep(id);
  if (!step) return null;
  const segments = segmentsOf(step, ready, awaits).filter(({ from, to }) => from < span.to && (to ?? now) > span.from);
  const label = labelOf(segments, now);
  // The label stands behind all bars, so that it covers none.
  const behind = Math.max(...segments.map(({ to }) => percent(to ?? now, span)));
  const end = label ? Math.min(100, behind) : 0;
  const start = percent(segments[0]?.from ?? span.from, span);
  const labels = label ? labelsOf(step, segments, label) : [];
  const text = (narrow ? undefined : labels.find(({ length }) => hasRoom(start, end, length))) ?? labels.at(-1) ?? "";
  const ran = segments.some(({ kind }) => kind === "running");
  const usual = ran && label && median !== undefined ? percent(label.from + median, span) : null;
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
        {/* Behind the label it would be a dot over a number. */}
        {usual !== null &&
          usual >= 0 &&
          usual <= 100 &&
          (usual <= end || usual > end + roomOf(text.length, narrow)) && (
            <span className={css.usual} style={{ left: `${usual}%` }} aria-hidden="true" />
          )}
        {step.keptFrom && (
          <span className={css.took} style={{ left: 0 }} aria-hidden="true">
            {stepLook(step).word}
          </span>
        )}
        {text !== "" && end > 0 && (
          <span className={css.took} style={besideBar(start, end, text.length, narrow)} aria-hidden="true">
            {text}
          </span>
        )}
      </span>
    </div>
  );
});

/** The labels of a row, the longest first: the duration with its tries and with the wait after it, and without them. */
function labelsOf(step: Step, segments: readonly Segment[], { ms, waitMs, waits }: Label): string[] {
  const last = segments.findLast(({ kind }) => kind === "running");
  const tried = step.attempts.find(({ logicalAttemptId }) => logicalAttemptId === last?.logicalAttemptId);
  const took = duration(ms);
  const withTries = [took, triesWord(tried)].filter((part) => part !== null).join(" ");
  const wait = waitMs === null ? "" : pictures.timeline.thenWaited(duration(waitMs), waits);
  const tries = tried && triesWord({ ...tried, lastTryMs: null });
  return [`${withTries}${wait}`, withTries, [took, tries].filter(Boolean).join(" "), took];
}

function segmentWords({ kind, from, to, logicalAttemptId }: Segment, now: Instant, frozen: boolean): string {
  const took = `${to === null && frozen ? "≥ " : ""}${duration((to ?? now) - from)}`;
  return [
    pictures.timeline[to === null ? "kindsNow" : "kinds"][kind],
    logicalAttemptId > 1 ? attemptName(logicalAttemptId) : null,
    took,
  ]
    .filter((part) => part !== null)
    .join(", ");
}

function rowWords(step: Step, segments: readonly string[], critical: boolean): string {
  return [stepLook(step).word, ...segments, critical ? pictures.timeline.onPath : null]
    .filter((part) => part !== null)
    .join("; ");
}
