// The data of the charts of a server's last hour, and their content in words.
import type { HealthHistoryQuery, HealthStatus } from "../api/gen/graphql";
import type { Instant } from "../format/format";
import { instant } from "../api/model";
import { health as healthMessages } from "../messages/health";
import { clockTime, count, duration, type Zone } from "../format/format";
import type { Tone } from "../ui/tones";

type Wire = HealthHistoryQuery["healthHistory"];
export type Sample = Omit<Wire["samples"][number], "at"> & { at: Instant };

export interface History {
  server: string;
  since: Instant;
  intervalMs: number;
  /** Oldest first. */
  samples: Sample[];
}

export type Measure =
  "lagP50Ms" | "lagP99Ms" | "framesPerSecond" | "viewers" | "streams" | "staleStreams" | "stateStoreMs" | "temporalMs";

/** The lines of a chart differ in their dashes, not only in colour. */
export interface Line {
  of: Measure;
  tone: Tone;
  dashed: boolean;
}

export type ChartName = "lag" | "frames" | "viewers" | "answers";

export const CHARTS: Record<ChartName, readonly Line[]> = {
  lag: [
    { of: "lagP50Ms", tone: "running", dashed: false },
    { of: "lagP99Ms", tone: "person", dashed: true },
  ],
  frames: [{ of: "framesPerSecond", tone: "running", dashed: false }],
  viewers: [
    { of: "viewers", tone: "running", dashed: false },
    { of: "staleStreams", tone: "failed", dashed: true },
  ],
  answers: [
    { of: "stateStoreMs", tone: "running", dashed: false },
    { of: "temporalMs", tone: "person", dashed: true },
  ],
};

export function toHistory({ samples, since, ...rest }: Wire): History {
  return { ...rest, since: instant(since), samples: samples.map((sample) => ({ ...sample, at: instant(sample.at) })) };
}

/** "0.4 ms", "42 ms", "1.3 s". */
export function milliseconds(ms: number): string {
  if (ms >= 1000) return duration(ms);
  return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
}

export function written(of: Measure, value: number): string {
  if (value === 0) return "0";
  switch (of) {
    case "framesPerSecond":
      return value < 10 ? value.toFixed(1) : count(Math.round(value));
    case "viewers":
    case "streams":
    case "staleStreams":
      return count(value);
    default:
      return milliseconds(value);
  }
}

/** The present value, and the highest with its time (the newest of equal ones). */
export function told(of: Measure, samples: readonly Sample[], zone: Zone): string {
  const newest = samples.at(-1);
  let most: { value: number; at: Instant } | null = null;
  for (const sample of samples) {
    const value = sample[of];
    if (value !== null && value >= (most?.value ?? 0)) most = { value, at: sample.at };
  }
  if (!newest || !most) return healthMessages.never[of];
  const now = newest[of];
  const said = now === null ? healthMessages.notNow[of] : healthMessages.now(written(of, now));
  return most.value === 0 ? said : `${said}, ${healthMessages.most(written(of, most.value), clockTime(most.at, zone))}`;
}

/** The number of samples in which dvt was not healthy, and the last of them. */
export function unwell(
  samples: readonly Sample[],
): { times: number; last: { at: Instant; status: HealthStatus } } | null {
  const bad = samples.filter((sample) => sample.status !== "HEALTHY");
  const last = bad.at(-1);
  return last ? { times: bad.length, last } : null;
}

/** Columns for a plot: the times, then the values of each line. Where samples are missing, the lines have a gap. */
export function columns(
  samples: readonly Sample[],
  lines: readonly Line[],
  intervalMs: number,
): [number[], ...(number | null)[][]] {
  const times: number[] = [];
  const values = lines.map((): (number | null)[] => []);
  for (const sample of samples) {
    const before = times.at(-1);
    if (before !== undefined && sample.at - before > 2.5 * intervalMs) {
      times.push(before + intervalMs);
      for (const column of values) column.push(null);
    }
    times.push(sample.at);
    for (const [i, { of }] of lines.entries()) values[i]?.push(sample[of]);
  }
  return [times, ...values];
}
