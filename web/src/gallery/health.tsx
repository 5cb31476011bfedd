// The states of the health charts.
import { HealthHistoryView } from "../health/HealthHistoryView";
import type { History, Sample } from "../health/samples";
import { NOW } from "../testing/fixtures";
import type { State } from "./state";

const EVERY = 15_000;

function sample(i: number, of: number, over: Partial<Sample> = {}): Sample {
  const wave = 1 + Math.sin(i / 9);
  return {
    at: NOW - (of - 1 - i) * EVERY,
    status: "HEALTHY",
    lagP50Ms: 1.5 + wave,
    lagP99Ms: 12 + 20 * wave * wave,
    framesPerSecond: 40 * wave,
    viewers: 900 + i,
    streams: 12,
    staleStreams: 0,
    stateStoreMs: 0.4 + wave / 5,
    temporalMs: 3 + wave,
    ...over,
  };
}

function history(samples: Sample[]): History {
  return { server: "dvt-0/7", since: NOW - 7_200_000, intervalMs: EVERY, samples };
}

const HOUR = Array.from({ length: 240 }, (_, i) => sample(i, 240));
const DOWN: Partial<Sample> = {
  status: "UNHEALTHY",
  lagP50Ms: null,
  lagP99Ms: null,
  framesPerSecond: 0,
  staleStreams: 12,
  stateStoreMs: null,
};

const HISTORIES: Record<string, History | null> = {
  loading: null,
  hour: history(HOUR),
  outage: history(HOUR.map((one, i) => (i >= 120 && i < 150 ? { ...one, ...DOWN } : one))),
  paused: history(HOUR.filter((_, i) => i < 60 || i > 160)),
  one: history([sample(0, 1)]),
  idle: history(
    HOUR.slice(0, 40).map((one) => ({
      ...one,
      lagP50Ms: null,
      lagP99Ms: null,
      framesPerSecond: 0,
      viewers: 0,
      streams: 0,
    })),
  ),
};

export function healths(): State[] {
  return Object.entries(HISTORIES).map(([name, shown]) => ({
    name: `health-${name}`,
    show: () => <HealthHistoryView history={shown} />,
    alone: name !== "outage",
  }));
}
