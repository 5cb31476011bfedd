// The doctor: why a run failed or does not continue, and what a person can do.
import type { CauseKind, Confidence, EvidenceSource } from "../api/gen/graphql";
import { count } from "../format/format";

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
  title: "Runs that need somebody, and their first cause",
  run: "Run",
  plan: "Plan",
  first: "First cause",
  none: "No run needs anybody.",
  noCause: "No cause is found.",
};
