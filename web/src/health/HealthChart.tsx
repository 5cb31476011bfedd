import { Suspense, useState } from "react";
import { health as healthMessages } from "../messages/health";
import { clockTime } from "../format/format";
import { lazyPart } from "../ui/lazyPart";
import { useZone } from "../ui/Time";
import css from "./Health.module.css";
import { CHARTS, type ChartName, type Line, type Sample, told, written } from "./samples";

const Plot = lazyPart(() => import("./Plot").then((part) => part.default));

interface HealthChartProps {
  name: ChartName;
  samples: readonly Sample[];
  intervalMs: number;
}

/** A chart with its content in words: for people who cannot see it, and for a quick look. */
export function HealthChart({ name, samples, intervalMs }: HealthChartProps) {
  const zone = useZone();
  const [pointed, setPointed] = useState<Sample | null>(null);
  const lines = CHARTS[name];
  return (
    <figure className={css.chart} aria-label={healthMessages.charts[name]}>
      <h3>{healthMessages.charts[name]}</h3>
      <div className={css.plot} aria-hidden="true">
        {samples.length > 0 && (
          <Suspense fallback={null}>
            <Plot samples={samples} lines={lines} intervalMs={intervalMs} point={setPointed} />
          </Suspense>
        )}
      </div>
      <figcaption className={css.caption}>
        {lines.map((line) => (
          <p key={line.of} className={css.line}>
            <Swatch line={line} />
            <span>
              {healthMessages.lines[line.of]}: {told(line.of, samples, zone)}
            </span>
          </p>
        ))}
        <p className={css.pointed} aria-hidden="true">
          {pointed &&
            `${clockTime(pointed.at, zone)}: ${lines.map(({ of }) => `${healthMessages.lines[of]} ${valueOf(pointed, of)}`).join(", ")}`}
        </p>
      </figcaption>
    </figure>
  );
}

function valueOf(sample: Sample, of: Line["of"]): string {
  const value = sample[of];
  return value === null ? healthMessages.none : written(of, value);
}

function Swatch({ line }: { line: Line }) {
  return (
    <svg className={css.swatch} data-tone={line.tone} viewBox="0 0 22 4" aria-hidden="true">
      <path d="M0 2h22" strokeDasharray={line.dashed ? "6 4" : undefined} />
    </svg>
  );
}
