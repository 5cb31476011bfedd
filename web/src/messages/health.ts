// The health of dvt.
import type { HealthStatus } from "../api/gen/graphql";

const NO_FRAME = "no frame was measured in this time";

export const health = {
  title: "Health",
  part: "Part",
  status: "Status",
  latency: "Answers in",
  means: "Meaning",
  abilities: "What the engine can do",
  ability: "Ability",
  engine: "Engine",
  support: "Support",
  note: "Note",
  words: { HEALTHY: "Healthy", DEGRADED: "Degraded", UNHEALTHY: "Unhealthy" } satisfies Record<HealthStatus, string>,
  says: {
    HEALTHY: "Everything that dvt depends on answers.",
    DEGRADED: "dvt is running with reduced service; see below.",
    UNHEALTHY: "Nothing can be changed until the store answers; see below.",
  } satisfies Record<HealthStatus, string>,
  history: "This server's last hour",
  notYours: "You need the SRE role to see the metrics of this server.",
  first: (seconds: number) => `The server has just started. The first sample comes within ${seconds} s.`,
  of: (server: string, since: string, newest: string) =>
    `Measured by ${server} alone, since ${since}; the newest sample is from ${newest}.`,
  unwell: (times: number, word: string, at: string) =>
    `${times === 1 ? "1 sample was" : `${times} samples were`} not healthy, the last one at ${at}: ${word}.`,
  charts: {
    lag: "Delay until viewers see a change",
    frames: "Updates sent per second",
    viewers: "Viewers",
    answers: "Answer times",
  },
  lines: {
    lagP50Ms: "Median (p50)",
    lagP99Ms: "p99",
    framesPerSecond: "Updates per second",
    viewers: "Viewers",
    streams: "Streams",
    staleStreams: "Stale streams",
    stateStoreMs: "State store",
    temporalMs: "Temporal",
  },
  now: (value: string) => `${value} now`,
  most: (value: string, at: string) => `at most ${value}, at ${at}`,
  notNow: {
    lagP50Ms: "no frame now",
    lagP99Ms: "no frame now",
    framesPerSecond: "none now",
    viewers: "none now",
    streams: "none now",
    staleStreams: "none now",
    stateStoreMs: "no answer now",
    temporalMs: "no answer now",
  },
  never: {
    lagP50Ms: NO_FRAME,
    lagP99Ms: NO_FRAME,
    framesPerSecond: NO_FRAME,
    viewers: "none",
    streams: "none",
    staleStreams: "none",
    stateStoreMs: "it did not answer",
    temporalMs: "it did not answer",
  },
  none: "none",
  at: "Time",
  asTable: "As a table",
  parts: {
    stateStore: "State store",
    engine: "Engine",
    temporal: "Temporal",
    eventBus: "Event bus",
    artifactStore: "Artifacts",
    secretsProvider: "Secrets",
  } as Record<string, string>,
};
