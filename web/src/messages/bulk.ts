// One action on many runs.
import type { Action, ActionOutcome, BulkOutcome, BulkState } from "../api/gen/graphql";
import { count, plural } from "../format/format";

export const bulk = {
  one: "Bulk action",
  list: "Bulk actions",
  empty: "Select runs on the runs page and choose what to do to them; it is listed here.",
  loading: "Loading the bulk action",
  runs: (n: number) => plural(n, "run"),
  many: "the runs",
  bar: "Selected runs",
  selected: (n: number) => `${plural(n, "run")} selected`,
  all: "All that match",
  actOnAll: "Act on all that match the filter",
  clear: "Clear",
  whichStep: "Step to retry in each run",
  counting: "Counting the runs and checking what would happen…",
  meant: (n: number) => (n === 0 ? "No run matches." : `This concerns ${plural(n, "run")}. If sent now:`),
  rest: (n: number) => `${plural(n, "more run")}: each is judged when its turn comes, and gets a receipt of its own.`,
  excluded: "Left out:",
  refusals: "As things are, these would be refused:",
  reason: (n: number, words: string) => `${plural(n, "run")}: ${words}`,
  outcomes: {
    APPLY: "would take effect",
    NOOP: "would change nothing",
    REFUSED: "would be refused",
    UNSUPPORTED: "is not supported",
  } satisfies Record<ActionOutcome, string>,
  typeCount: (n: string) => `Type the number of runs, ${n}, without separators, to confirm`,
  send: (action: string) => `Send: ${action.charAt(0).toLowerCase()}${action.slice(1)}`,
  moved: "The runs that match have changed since they were counted. Look again before you send; your reason is kept.",
  state: (state: BulkState, done: number, total: number) =>
    state === "STOPPED"
      ? `Stopped: ${count(done)} of ${count(total)} done`
      : state === "STOPPING"
        ? `Stopping: ${count(done)} of ${count(total)} done`
        : state === "DONE" && done === total
          ? `Done: ${count(total)} of ${count(total)}`
          : `${count(done)} of ${count(total)} done`,
  paced: (code: string, wait: string | null) =>
    `Paced by ${code}${wait === null ? "" : `, goes on in ${wait}`}; nothing is lost.`,
  applications: {
    applied: (n: number) => `${count(n)} applied`,
    noop: (n: number) => `${count(n)} without effect`,
    delivered: (n: number) => `${count(n)} delivered`,
    pending: (n: number) => `${count(n)} accepted`,
    notApplied: (n: number) => `${count(n)} not applied`,
  },
  retryFailed: (n: number) =>
    n === 0 ? "Retry those that failed" : n === 1 ? "Retry the one that failed…" : `Retry the ${count(n)} that failed…`,
  noneFailed: "None has failed so far.",
  notHere: "This action can be sent again by the command line only: dvt bulk signal.",
  stop: "Stop the bulk action",
  stopMeans: (waiting: number) =>
    `${plural(waiting, "signal")} that ${waiting === 1 ? "is" : "are"} not sent yet will not be sent. Signals that were sent stay sent.`,
  stopped: "It is stopped.",
  over: "Everything is sent.",
  csv: "Export CSV",
  asked: "Asked for",
  byResult: "Filter by result",
  none: "No run has this result.",
  rows: "Runs of the bulk action",
  no: "#",
  result: "Result",
  receipt: "Receipt",
  results: {
    all: "All",
    failed: "Failed",
    waiting: "Waiting",
    accepted: "Accepted",
    rejected: "Rejected",
    refused: "Refused",
    notSent: "Not sent",
  },
  outcome: {
    WAITING: "Waiting",
    ACCEPTED: "Accepted",
    REJECTED: "Rejected",
    REFUSED: "Refused",
    NOT_SENT: "Not sent",
    UNKNOWN: "Unknown",
  } satisfies Record<BulkOutcome, string>,
  refusedOf: (n: number) => `${count(n)} refused`,
  verb: (action: Action, runs: string) => VERBS[action]?.(runs) ?? `An action on ${runs}`,
};

const VERBS: Partial<Record<Action, (runs: string) => string>> = {
  PAUSE: (runs: string) => `Pause ${runs}`,
  RESUME: (runs: string) => `Resume ${runs}`,
  RETRY_STEP: (runs: string) => `Retry a step of ${runs}`,
  SKIP_STEP: (runs: string) => `Skip a step of ${runs}`,
  UPDATE_PARAMS: (runs: string) => `Change the parameters of ${runs}`,
  INJECT_OVERRIDE: (runs: string) => `Override inputs of ${runs}`,
  ESCALATE_ALERT: (runs: string) => `Raise an alert for ${runs}`,
  UPDATE_TARGET: (runs: string) => `Change the target of ${runs}`,
  RERUN: (runs: string) => `Rerun ${runs}`,
  EMERGENCY_STOP: (runs: string) => `Emergency-stop ${runs}`,
  CANCEL: (runs: string) => `Cancel ${runs}`,
  COMPLETE_MANUAL_STEP: (runs: string) => `Complete a step of ${runs}`,
};
