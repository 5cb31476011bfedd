// The health of dvt.
import type { HealthStatus } from "../api/gen/graphql";
import { plural } from "../format/format";

const NAMED = 3;

const NO_START = "Runs in progress continue. No new run starts.";
const NOT_ACCEPTED = "Runs can be read, and runs in progress changed. No new run starts.";
const NO_FRAME = "no changes in this period";

export const health = {
  title: "Health",
  part: "Part",
  status: "Status",
  latency: "Answers in",
  means: "Meaning",
  todo: "What to do",
  notConfigured: "Not configured",
  /** Explains a healthy state of each part. */
  accepted: "Accepted",
  takeSteps: "Take steps",
  draining: "Drained",
  takeNone: "Take no steps",
  drained: (worker: string, actor: string, reason: string) =>
    `${worker} was drained by ${actor}: ${reason.replace(/[.!?]?$/, ".")}`,
  unserved: (queue: string) => `Nobody serves ${queue}: its steps wait.`,
  delivered: "Accepted",
  notDelivered: "Not accepted",
  getNothing: (names: readonly string[], of: number) => {
    const more = names.length > NAMED ? ` and ${names.length - NAMED} more` : "";
    return `${names.length} of ${plural(of, "destination")} ${names.length === 1 ? "gets" : "get"} no message: ${names.slice(0, NAMED).join(", ")}${more}. Runs do not need them.`;
  },
  othersMiss: "But other systems do not get its events and alerts.",
  toDeliveries: "See Deliveries",
  toWorkers: "End the drain, or start a worker",
  haltedSince: (at: string) => `Since ${at} UTC.`,
  endIt: "An Admin or an SRE can end it under",
  toService: "Admin, Service",
  fine: {
    starts: "New runs are accepted, and start as soon as a slot is free.",
    stateStore: "Runs can be read and changed.",
    engine: "Runs start and continue.",
    temporal: "Runs start and continue.",
    eventBus: "Pages show changes at once.",
    artifactStore: "Logs and artifacts can be read and stored.",
    deliveries: "Other systems get events and alerts.",
    workers: "Steps of programs start as soon as a slot is free.",
  } as Record<string, string>,
  /** While no new run starts: a word for the head, a sentence, and what healthy parts mean then. */
  halted: {
    READ_ONLY: {
      word: "Read-only",
      says: "But dvt is read-only: no new run starts.",
      fine: {
        stateStore: "Runs can be read, and runs in progress changed. No new run is accepted.",
        engine: NO_START,
        temporal: NO_START,
        eventBus:
          "It answers, but nothing is published in this mode. Pages read the store, so they may be a second later.",
      } as Record<string, string>,
    },
    DRAINED: {
      word: "Drained",
      says: "But dvt is being drained: no new run starts here.",
      fine: { stateStore: NOT_ACCEPTED, engine: NO_START, temporal: NO_START } as Record<string, string>,
    },
    FROZEN: {
      word: "Frozen",
      says: "But your tenant is frozen: no new run starts.",
      fine: { stateStore: NOT_ACCEPTED, engine: NO_START, temporal: NO_START } as Record<string, string>,
    },
    DEGRADED: {
      word: "Refuses new runs",
      says: "New runs are refused for now.",
      fine: {
        stateStore: NOT_ACCEPTED,
        engine: "Runs in progress continue. New runs are refused until the engine starts them fast enough.",
        temporal: "Runs in progress continue. New runs are refused until the engine starts them fast enough.",
      } as Record<string, string>,
    },
  },
  /** The next step for the person on call, and who can take it. */
  todos: {
    stateStore:
      "Check that the database runs, that its disk has room and that dvt may write. Ask the team that runs the database; runs continue by themselves afterwards.",
    engine:
      "Check that Temporal runs and that dvt reaches it. Nothing is lost: signals and runs wait. Ask the team that runs Temporal.",
    temporal:
      "Check that Temporal runs and that dvt reaches it. Nothing is lost: signals and runs wait. Ask the team that runs Temporal.",
    eventBus:
      "Check that Redis runs. Pages stay right, but show changes some seconds later. Ask the team that runs Redis.",
    artifactStore:
      "Check the bucket or the disk of logs and artifacts, and the rights of dvt. Steps continue, their logs may be lost.",
  } as Record<string, string>,
  tell: "Tell an SRE of your installation, and quote the meaning.",
  abilities: "What the engine can do (for authors of plans)",
  ability: "Ability",
  engine: "Engine",
  support: "Support",
  note: "Note",
  /** Runs work, and rows of the table need somebody. */
  partly: (parts: readonly string[]) => `Needs a look: ${parts.join(", ")}`,
  words: { HEALTHY: "Healthy", DEGRADED: "Degraded", UNHEALTHY: "Unhealthy" } satisfies Record<HealthStatus, string>,
  says: {
    HEALTHY: "Everything that dvt depends on answers.",
    DEGRADED: "dvt is running with reduced service; see below.",
    UNHEALTHY: "Nothing can be changed until the store answers; see below.",
  } satisfies Record<HealthStatus, string>,
  history: "This server's last hour",
  notYours:
    "You need the SRE role to see the measurements of this server. The table above is all that you need to judge an incident.",
  first: (seconds: number) => `The server has just started. The first sample comes within ${seconds} s.`,
  of: (server: string, since: string, newest: string) =>
    `Measured by the server ${server} alone, from ${since} to ${newest}.`,
  unwell: (times: number, word: string, at: string) =>
    `It was not healthy ${times === 1 ? "once" : `${times} times`}, last at ${at}: ${word}.`,
  charts: {
    lag: "Delay until viewers see a change",
    frames: "Updates sent per second",
    viewers: "Viewers",
    answers: "Answer times",
  },
  lines: {
    lagP50Ms: "Half of the changes within",
    lagP99Ms: "99 of 100 within",
    framesPerSecond: "Updates per second",
    viewers: "Viewers",
    streams: "Open pages",
    staleStreams: "Pages that are behind",
    stateStoreMs: "State store",
    temporalMs: "Temporal",
  },
  now: (value: string) => `${value} now`,
  most: (value: string, at: string) => `peak ${value} at ${at}`,
  notNow: {
    lagP50Ms: "no change now",
    lagP99Ms: "no change now",
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
    starts: "New runs",
    stateStore: "State store",
    engine: "Engine",
    temporal: "Temporal",
    eventBus: "Event bus",
    artifactStore: "Artifacts",
    secretsProvider: "Secrets",
    workers: "Workers",
    deliveries: "Deliveries",
  } as Record<string, string>,
};
