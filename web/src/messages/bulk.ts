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
  selected: (n: number, ended: number) =>
    ended === 0 || ended === n
      ? `${plural(n, "run")} selected`
      : `${plural(n, "run")} selected: ${count(ended)} ended, ${count(n - ended)} active`,
  noneApplies: {
    RERUN: "Only runs that have ended can be rerun. None of the selected runs has ended.",
    PAUSE: "None of the selected runs is running.",
    RESUME: "None of the selected runs is paused.",
    RETRY_STEP: "None of the selected runs is active with a failed step. Runs that have ended can be rerun.",
    CANCEL: "All selected runs have ended.",
    EMERGENCY_STOP: "All selected runs have ended.",
  },
  twoToCompare: "Select exactly two runs to compare them.",
  all: "All that match",
  actOnAll: "Act on all that match the filter",
  clear: "Clear",
  whichStep: "Step to retry in each run",
  params: "Parameters of the new runs",
  ownParams: "Each keeps those of its run",
  sameParams: "The same for all of them",
  paramsOf: (run: string) => `Parameters of all new runs, prefilled from ${run}`,
  correctParams: "Correct the parameters above. The preview follows.",
  rerun: (counts: string) => `will be rerun: ${counts}`,
  counting: "Counting the runs and checking what would happen…",
  meant: (n: number) => (n === 0 ? "No run matches." : `This concerns ${plural(n, "run")}.`),
  first: (n: number) => (n === 1 ? "If sent now:" : `If sent now, of the first ${n}:`),
  rest: (n: number) =>
    n === 1
      ? "The other run is checked when it is sent."
      : `The other ${count(n)} runs are checked when they are sent.`,
  excluded: "Left out:",
  leftOut: (n: number) => `${count(n)} left out: already rerun`,
  alreadyRerun: (n: number) => `Rerun also the ${plural(n, "run")} already rerun. Their work is then done twice.`,
  refusals: "Would be refused now:",
  reason: (n: number, words: string) => `${plural(n, "run")}: ${words}`,
  outcomes: {
    APPLY: "will take effect",
    NOOP: "would change nothing",
    REFUSED: "would be refused",
    UNSUPPORTED: "is not supported",
  } satisfies Record<ActionOutcome, string>,
  typeCount: (n: string) => `Type ${n} to confirm`,
  moved: "The runs that match have changed since they were counted. Look again before you send; your reason is kept.",
  /** The progress of sending: what became of the runs stands beside it. */
  state: (state: BulkState, done: number, total: number) =>
    state === "STOPPED"
      ? `Stopped: ${count(done)} of ${count(total)} sent`
      : state === "STOPPING"
        ? `Stopping: ${count(done)} of ${count(total)} sent`
        : `${count(done)} of ${count(total)} sent`,
  paced: (code: string, wait: string | null) =>
    `Waiting because of ${code}${wait === null ? "" : `, continues in ${wait}`}; nothing is lost.`,
  applications: {
    applied: (n: number) => `${count(n)} applied`,
    noop: (n: number) => `${count(n)} without effect`,
    delivered: (n: number) => `${count(n)} delivered`,
    pending: (n: number) => `${count(n)} not delivered yet`,
    notApplied: (n: number) => `${count(n)} not applied`,
  },
  retryFailed: (n: number) =>
    n === 0
      ? "Send again"
      : n === 1
        ? "Send again to the one without effect…"
        : `Send again to the ${count(n)} without effect…`,
  rerunFailed: (n: number) =>
    n === 0 ? "Rerun those that failed" : n === 1 ? "Rerun the one that failed…" : `Rerun the ${count(n)} that failed…`,
  noneFailed: "No run was missed, so there is nothing to send again.",
  noneFailedAgain: "None of the new runs has failed so far.",
  ofFailed: (n: number) => `${count(n)} failed again`,
  notHere: "This action can be sent again by the command line only: dvt bulk signal.",
  stop: "Stop the bulk action",
  stopMeans: (waiting: number) =>
    `${plural(waiting, "signal")} that ${waiting === 1 ? "is" : "are"} not sent yet will not be sent. Signals that were sent stay sent.`,
  stopped: "It is stopped.",
  over: "Everything is sent.",
  csv: "Export CSV",
  asked: "Started",
  byResult: "Filter by result",
  none: "No run has this result.",
  rows: "Runs of the bulk action",
  no: "#",
  result: "Outcome, and status now",
  newRun: "New run",
  cause: "Cause",
  failures: "Why runs failed",
  failedWith: (n: number) => `${count(n)} failed:`,
  runsNow: { made: "The new runs now:", met: "The runs now:" },
  runsAre: {
    waiting: (n: number) => `${count(n)} waiting`,
    running: (n: number) => `${count(n)} running`,
    paused: (n: number) => `${count(n)} paused`,
    completed: (n: number) => `${count(n)} completed`,
    failed: (n: number) => `${count(n)} failed`,
    cancelled: (n: number) => `${count(n)} cancelled`,
  },
  results: {
    all: "All",
    failed: "Without effect",
    waiting: "Waiting",
    accepted: "Sent",
    rejected: "Refused by dvt",
    refused: "Could not be sent",
    notSent: "Stopped before",
  },
  outcome: {
    WAITING: "Waiting for its turn",
    ACCEPTED: "Sent",
    REJECTED: "Refused by dvt",
    REFUSED: "Could not be sent",
    NOT_SENT: "Stopped before it was sent",
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
