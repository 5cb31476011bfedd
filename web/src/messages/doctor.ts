// The doctor: why a run failed or does not continue, and what a person can do.
import type { CauseKind, Confidence, EvidenceSource } from "../api/gen/graphql";
import { count, plural } from "../format/format";

export const doctor = {
  diagnose: "Diagnose",
  causes: "Causes, what must be mended first first",
  what: "What to do",
  well: "Nothing holds the run up.",
  unknown: "The doctor finds nothing beyond this error.",
  unread: "The doctor does not answer now.",
  kinds: { FAULT: "fault", WAIT: "wait", END: "end" } satisfies Record<CauseKind, string>,
  confidences: { CERTAIN: "certain", LIKELY: "likely", POSSIBLE: "possible" } satisfies Record<Confidence, string>,
  sources: {
    EVENT: "Event",
    OUTPUT: "Output",
    ENGINE: "Engine",
    WORKERS: "Workers",
    QUEUE: "Queue",
    SIGNALS: "Signal",
    HEALTH: "Health",
    HISTORY: "Earlier runs",
  } satisfies Record<EvidenceSource, string>,
  steps: (n: number) => (n === 1 ? "Step" : "Steps"),
  more: (n: number) => `and ${count(n)} more`,
  line: (line: number) => `line ${line}`,
  since: "since",
  until: "deadline",
  safe: "safe",
  safeMeans: "It loses no work, starts no work that may still be running, and overrides no decision of a person.",
  force: "needs force",
  forceMeans: "The run accepts it only by force, with a reason. The confirmation offers both.",
  metric: "metric",
  title: "Runs that need somebody, and their first cause",
  run: "Run",
  plan: "Plan",
  first: "First cause",
  none: "No run needs anybody.",
  noCause: "No cause is found.",
};

/** When a run ends. */
export const ends = {
  about: (at: string, from: string, to: string) => `ends about ${at} (${from}–${to})`,
  by: (at: string, to: string) => `ends about ${at} (by ${to})`,
  late: (runs: number) => `slower than most of the last ${plural(runs, "run")}`,
  due: (at: string) => `due ${at}`,
  isLate: "late",
  mayBeLate: "will probably be late",
  missed: "missed its deadline",
  met: "in time",
  few: (runs: number, needed: number) => `no forecast yet: ${runs} of ${needed} runs`,
  waits: (step: string) => `no forecast: ${step} waits for a person`,
  unknown: (step: string) => `no forecast: ${step} is new, and no earlier step is like it`,
  basis: (runs: number) =>
    `Four of five runs end in this range, by the steps of ${plural(runs, "completed run")} and what has ended so far.`,
  similar: " The plan changed: new steps count like earlier ones of their name or type.",
};
