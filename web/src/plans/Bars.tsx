import { Link } from "@tanstack/react-router";
import { duration } from "../format/format";
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

/** A bar for each duration, oldest first, with the median as a line. Each is a link to its run. */
export function Bars({ label, bars, medianMs }: { label: string; bars: readonly Bar[]; medianMs: number | null }) {
  const longest = Math.max(1, medianMs ?? 0, ...bars.map(({ ms }) => ms ?? 0));
  const y = (ms: number): number => HEIGHT - Math.max(LEAST, (ms / longest) * (HEIGHT - LEAST));
  return (
    <figure className={css.figure}>
      <figcaption className={css.quiet}>
        {label}
        {medianMs !== null && ` · ${m.plans.median} ${duration(medianMs)}`}
      </figcaption>
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
    </figure>
  );
}
