// The page of one run.
import { count, plural } from "../format/format";

export const run = {
  gone: "There is nothing here, or you cannot see it.",
  goneHint: (runId: string, who: string) => `Run ${runId} does not exist or belongs to another tenant. You are ${who}.`,
  toRuns: "All runs",
  waitsSince: "Since",
  waitsUntil: "Until",
  whoCanHelp: (who: readonly string[]) => `Who can: ${who.join(", ")}.`,
  forbidden: "You may not see this run.",
  sessionEnded: "Your session has ended.",
  signInAgain: "Sign in again",
  failedToLoad: "This could not be loaded.",
  correlation: (id: string) => `Request id ${id}: quote it when you ask for help.`,
  retry: "Retry",
  notStarted: "The run has not started. Its steps appear when the plan is read.",
  planned: "The run has not started. These are the steps of its plan.",
  waitingFor: (time: string) => `waiting for ${time}`,
  toComplete: "A person must complete",
  youComplete: "You can complete",
  canComplete: (who: string) => `Only ${who} can complete`,
  neverStarted: "The run ended before a step ran.",
  windowCloses: (left: string) => `${left} left to retry`,
  windowClosed: "the retry window has closed",
  unknownMeans: "This page does not know this status: the server may be newer. Reload the page.",
  compensatingMeans: "dvt undoes the effects of the steps, one after another.",
  failure: (step: string, why: string, others: number) =>
    `${step} failed: ${why}${others > 0 ? `, and ${plural(others, "more step")}` : ""}`,
  nobodyRetried: (within: string) => `nobody retried within ${within}`,
  overruled: (n: number) =>
    n === 1 ? "1 step failed and a person skipped it" : `${count(n)} steps failed and people skipped them`,
  stepsFailed: (n: number) => `${plural(n, "step")} failed`,
  draining: (n: number) => `Waiting for ${plural(n, "running step")}`,
  pausedBy: (who: string, why: string | null) => `by ${who}${why ? `: “${why}”` : ""}`,
  cancelled: {
    title: "Cancelled",
    unknown: "somebody",
    by: (who: string, why: string | null) => `cancelled by ${who}${why ? `: “${why}”` : ""}`,
    stopped: (who: string, why: string | null) => `emergency stop by ${who}${why ? `: “${why}”` : ""}`,
    declined: (who: string, why: string | null) => `approval rejected by ${who}${why ? `: “${why}”` : ""}`,
    expired: (why: string | null) => `not approved in time${why ? `: ${why}` : ""}`,
    receipt: "Receipt",
    neverStarted: (n: number) => `${plural(n, "step")} never started, because the run was cancelled`,
    before: "Before that, a step had failed:",
  },
  rootCause: "Root cause",
  message: "What the step said",
  more: "More",
  less: "Less",
  logAround: (line: number) => `The log around line ${line}`,
  blocks: (n: number) => `blocks ${plural(n, "step")}`,
  nothingStarts: "Nothing new starts:",
  heldSteps: (n: number) => `${plural(n, "step")} ${n === 1 ? "waits" : "wait"}`,
  needThis: (n: number, of: number) =>
    n === 0
      ? "none needs this one"
      : n === of
        ? n === 1
          ? "it needs this one"
          : "all need this one"
        : `${count(n)} of them ${n === 1 ? "needs" : "need"} this one`,
  retryable: "a retry can help",
  notRetryable: "a retry alone does not help",
  openLog: "Open log",
  logLine: (line: number) => `Log line ${line}`,
  copy: "Copy error",
  copied: "Copied",
  copyId: "Copy run id",
  startedBy: (who: string) => `started by ${who}`,
  rerunOf: "rerun of",
  rerunAs: "rerun as",
  notes: (n: number) => plural(n, "note"),
  requestedBy: (who: string) => `requested by ${who}`,
  views: "Views of the run",
  tabs: {
    graph: "Graph",
    timeline: "Timeline",
    steps: "Steps",
    events: "Events",
    receipts: "Receipts",
    artifacts: "Artifacts",
    details: "Details",
    logs: "Search logs",
  },
  counts: {
    success: "succeeded",
    failed: "failed",
    running: "running",
    retrying: "waiting to try again",
    manual: "waiting for a person",
    pending: "pending",
    neverStarted: "never started",
    stopped: "cancelled",
    kept: "kept",
    skipped: "skipped",
  },
  afterRetries: (n: number, who: string) => `after ${plural(n, "retry", "retries")} by ${who}`,
  ofSteps: (n: number) => `of ${plural(n, "step")}`,
  alsoFailed: (which: string) => `Also failed: ${which}`,
  lastGreen: "Last success: run",
  neverGreen: "Last success: none before this run",
  dbtFailed: (kind: string, failed: number, skipped: number) =>
    `${plural(failed, `dbt ${kind}`)} failed${skipped > 0 ? `, ${count(skipped)} skipped` : ""}`,
  sql: "SQL",
  sqlOf: (name: string) => `Compiled SQL of ${name}`,
  andMore: (n: string) => `and ${n} more`,
  position: (n: number) => `position ${n} in the queue of its project`,
  startsAfter: (active: number | null, max: number | null) => {
    if (active === null) return "starts when another run ends";
    const ends = max === null ? 1 : active - max + 1;
    return ends > 1
      ? `starts when ${ends} of ${active} active runs have ended`
      : active === 1
        ? "starts when the active run ends"
        : `starts when one of ${plural(active, "active run")} ends`;
  },
  startsIn: (wait: string) => `starts in about ${wait} (estimate)`,
  approvals: (n: number, of: number, who: string) => `${n} of ${plural(of, "approval")}${who ? ` (${who})` : ""}`,
  you: "you",
  /** More people must approve than can. */
  stuck: (who: readonly string[]) =>
    who.length === 0
      ? "Nobody can approve it: change the policy or cancel"
      : `Only ${who.join(", ")} can approve, which is not enough: change the policy or cancel`,
  approvalEnds: (left: string) => `cancelled in ${left}`,
  nextFailed: "Next failed",
  showGraph: "Show the graph",
  after: (names: readonly string[]) => `after ${names.join(", ")}`,
};

export const runKeys = {
  retry: "Retry the failed step",
  pause: "Pause or resume",
  log: "Log of the failed step",
  menu: "All actions",
  copyLink: "Copy a link to this moment",
  back: "The event before",
  forth: "The event after",
  live: "Back to now",
};

export const details = {
  params: "Parameters",
  noParams: "none",
  reading: "Reading…",
  runId: "Run id",
  plan: "Plan",
  sha256: "Plan sha256",
  place: "Tenant / project / environment",
  startedBy: "Started by",
  unknown: "unknown",
  created: "Created",
  started: "Started",
  ended: "Ended",
  notYet: "not yet",
  position: "Position",
  engine: "Engine",
  workflow: (provider: string, id: string) => `${provider}, workflow ${id}`,
  traceId: "Trace id",
  parent: "Rerun of",
  reruns: "Reruns",
  overlays: "Changed while it ran",
  document: "Plan document",
  noDocument: "No worker has fetched the plan yet; it appears here when one has.",
  download: "Download",
  cut: "The document is longer than shown; the file has all of it.",
};

export const artifacts = {
  none: "No step has an artifact.",
  kind: "Kind",
  step: "Step",
  attempt: "Attempt",
  size: "Size",
  sha256: "SHA-256",
  file: "File",
  previewOf: (file: string) => `Content of ${file}`,
  download: (file: string) => `Download ${file}`,
  /** The kinds that dvt's own steps write; others are shown as they are named. */
  kinds: {
    run_results: "dbt run results",
    manifest: "dbt manifest",
    "dbt-run-results": "dbt run results",
    "dbt-manifest": "dbt manifest",
    "dataset-sample": "Sample of rows",
    "log-bundle": "Logs",
    custom: "File",
    sources: "dbt source freshness",
    catalog: "dbt catalog",
    result: "Result",
  } as Readonly<Record<string, string>>,
};

export const events = {
  empty: "No events yet.",
  dropped: (n: number) =>
    `The oldest ${plural(n, "event")} are not kept on this page. The export has only what is shown.`,
  types: "Types of events",
  export: "Export JSON Lines",
  noneMatch: "No event matches. Choose other types or another step.",
  heads: ["Seq", "Time", "After", "Event", "What happened", "Who"],
  find: "Find a step",
  /** A type of event in words: StepFailed is "Step failed". */
  type: (type: string) => type.replaceAll(/(?<=[a-z])[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`),
  is: {
    queued: (position: number) =>
      position > 0 ? `The run waits in the queue, at position ${position}.` : "The run waits in the queue.",
    approved: (people: string) => (people === "" ? "The run may start." : `${people} approved the run.`),
    started: (steps: number, plan: string) => `The run started: ${plural(steps, "step")} of ${plan}.`,
    paused: (who: string, running: number) =>
      `${who === "" ? "dvt" : who} paused the run${
        running > 0 ? `; ${plural(running, "running step finishes", "running steps finish")} first` : ""
      }.`,
    resumed: (who: string) => `${who === "" ? "dvt" : who} resumed the run.`,
    completed: "The run completed.",
    runFailed: (step: string, error: string) =>
      `The run failed${step === "" ? "" : `, because ${step} failed`}${error === "" ? "." : `: ${error}`}`,
    cancelled: (who: string, stop: boolean, code: string) =>
      who === ""
        ? `The run was cancelled${code === "" ? "." : `: ${code}`}`
        : stop
          ? `${who} stopped the run in an emergency.`
          : `${who} cancelled the run.`,
    stepStarted: (step: string, attempt: string) => `${step} started${attempt === "" ? "" : ` as ${attempt}`}.`,
    succeeded: (step: string, took: string) => `${step} succeeded${took === "" ? "" : ` after ${took}`}.`,
    kept: (step: string, run: string) => `${step} kept its result of run ${run}.`,
    completedBy: (step: string, who: string) => `${who} completed ${step}.`,
    failed: (step: string, attempt: string, error: string, took: string) =>
      `${step}${attempt === "" ? "" : ` (${attempt})`} failed${took === "" ? "" : ` after ${took}`}: ${error}`,
    stopped: (step: string) => `${step} was stopped, because the run was cancelled.`,
    skipped: (step: string, why: string) => `${step}: ${why}.`,
    asked: (who: string, what: string, refused: string) =>
      `${who} sent: ${what}.${refused === "" ? "" : ` It was refused: ${refused}`}`,
    waits: (step: string) => `${step} waits for a person.`,
    nodes: (step: string, n: number) => `${step} reports ${plural(n, "node")}.`,
    undone: (step: string) => `${step} was undone.`,
    notUndone: (step: string, error: string) => `${step} could not be undone: ${error}`,
    undoing: (steps: number) => `dvt undoes ${plural(steps, "step")}, the last one first.`,
  },
  skipped: {
    FAIL_FAST: "not started, because another step failed",
    DEPENDENCY_FAILED: "not started, because a step that it needs failed",
    DEPENDENCY_SKIPPED: "not started, because a step that it needs was skipped",
    CONDITION_FALSE: "not started, because its condition is false",
    OPERATOR_SKIP: "skipped by a person",
  } as Readonly<Record<string, string>>,
  unused: (from: number, to: number) => (from === to ? `seq ${from} unused` : `seq ${from} to ${to} unused`),
};

export const time = {
  title: "Time machine",
  reading: (seq: number) => `Reading the run at seq ${seq}…`,
  viewing: (seq: number) => `Viewing seq ${seq},`,
  off: "Actions are off.",
  offAtEnd: "This is how the run ended. For its actions, go back to now.",
  none: (seq: number) => `The run has no seq ${seq}.`,
  first: "To the beginning",
  last: "To the newest event",
  back: "The event before",
  forth: "The event after",
  atHead: "This is the newest.",
  play: "Play the log",
  stop: "Stop playing",
  speed: "Speed",
  slider: "Position in the log",
  of: (seq: number, head: number) => `seq ${seq} of ${head}`,
  mark: (kind: "failure" | "retry" | "person", step: string | null) =>
    `${{ failure: "Failure", retry: "Retry", person: "Signal" }[kind]}${step ? ` of ${step}` : ""}`,
  diff: "Diff with now",
  live: "Live",
};

export const diff = {
  title: "What changed",
  loading: "Comparing…",
  between: (from: number, to: number) => `What changed between seq ${from} and seq ${to}`,
  same: "No step and no person changed anything in between.",
  close: "Close the comparison",
};
