import { Link } from "@tanstack/react-router";
import { fineDuration } from "../format/format";
import { m } from "../messages";
import { type CellLook, toneStyle } from "./glyphs";
import css from "./Plans.module.css";

const HEIGHT = 72;
const LEAST = 2;

export interface Bar {
  key: string;
  runId: string;
  /** Opens the step and its attempt in the page of the run. */
  step?: { step: string; attempt: number };
  ms: number | null;
  look: CellLook;
  name: string;
}

/**
 * A bar for each duration, oldest first, beside an axis with the longest duration and the median, which is also a line.
 * Each is a link to its run.
 */
export function Bars({ label, bars, medianMs }: { label: string; bars: readonly Bar[]; medianMs: number | null }) {
  const longest = Math.max(1, medianMs ?? 0, ...bars.map(({ ms }) => ms ?? 0));
  const y = (ms: number): number => HEIGHT - Math.max(LEAST, (ms / longest) * (HEIGHT - LEAST));
  if (bars.every(({ ms }) => ms === null)) return null;
  return (
    <figure className={css.figure}>
      <figcaption className={css.quiet}>
        {label}
        {medianMs !== null && ` · ${m.plans.median} ${fineDuration(medianMs)}`}
      </figcaption>
      <div className={css.chart}>
        <div className={css.axis} aria-hidden="true">
          {axisOf(longest, medianMs).map(({ ms, text }) => (
            <span key={text} style={{ top: y(ms) }}>
              {text}
            </span>
          ))}
        </div>
        <div className={css.bars}>
          {bars.map(({ key, runId, step, ms, look, name }) => (
            <Link
              key={key}
              to="/runs/$runId"
              params={{ runId }}
              search={step ?? {}}
              className={css.barLink}
              style={toneStyle(look.tone, false)}
              aria-label={name}
              title={name}
            >
              <svg
                width="100%"
                height={HEIGHT}
                viewBox={`0 0 10 ${HEIGHT}`}
                preserveAspectRatio="none"
                aria-hidden="true"
              >
                {ms !== null && <rect x="1" width="8" y={y(ms)} height={HEIGHT - y(ms)} fill="currentColor" />}
                {medianMs !== null && <line className={css.tick} x1="0" x2="10" y1={y(medianMs)} y2={y(medianMs)} />}
              </svg>
              <span aria-hidden="true">{look.glyph}</span>
            </Link>
          ))}
        </div>
      </div>
    </figure>
  );
}

/** The part of the height below which two labels of the axis would overlap. */
const APART = 0.22;

/** The labels of the axis: the longest duration, the median and zero, unless one would lie on another. */
export function axisOf(longest: number, medianMs: number | null): { ms: number; text: string }[] {
  const between = medianMs === null ? 0 : medianMs / longest;
  return [
    { ms: longest, text: fineDuration(longest) },
    ...(medianMs !== null && between > APART && between < 1 - APART
      ? [{ ms: medianMs, text: fineDuration(medianMs) }]
      : []),
    { ms: 0, text: "0" },
  ];
}
