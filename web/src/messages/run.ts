// The page of one run.
import type { RunView } from "../runs/views";
import { plural } from "../ui/format";

export const run = {
  gone: "Nothing here that you can see.",
  goneHint: (runId: string, who: string) =>
    `Run ${runId} does not exist or belongs to another tenant. You are ${who}.`,
  toRuns: "All runs",
  forbidden: "You may not see this run.",
  sessionEnded: "Your session has ended.",
  signInAgain: "Sign in again",
  failedToLoad: "This could not be loaded.",
  correlation: (id: string) => `Correlation id ${id}: name it when you ask for help.`,
  retry: "Retry",
  notStarted: "The run has not started. Its steps appear when the plan is read.",
  queuedSince: "waiting since",
  windowCloses: (left: string) => `window closes in ${left}`,
  windowClosed: "the retry window has closed",
  unknownMeans: "This page does not know this status: the server may be newer. Reload the page.",
  compensatingMeans: "What the steps have done is being undone, one after the other.",
  stepsFailed: (n: number) => `${plural(n, "step")} failed`,
  draining: (n: number) => `Waiting for ${plural(n, "in-flight task")}`,
  pausedBy: (who: string, why: string | null) => `by ${who}${why ? `: “${why}”` : ""}`,
  rootCause: "Root cause",
  blocks: (n: number) => `blocks ${plural(n, "step")}`,
  retryable: "retryable",
  notRetryable: "not retryable",
  openLog: "Open log",
  logLine: (line: number) => `Log line ${line}`,
  copy: "Copy error",
  copied: "Copied",
  copyId: "Copy run id",
  startedBy: (who: string) => `started by ${who}`,
  views: "Views of the run",
  tabs: { graph: "Graph", timeline: "Timeline", steps: "Steps", events: "Events", receipts: "Receipts", artifacts: "Artifacts", details: "Details" } satisfies Record<RunView, string>,
  counts: { success: "succeeded", failed: "failed", running: "running", pending: "pending", skipped: "skipped" },
  ofSteps: (n: number) => `of ${plural(n, "step")}`,
  alsoFailed: "Also failed:",
  lastGreen: "Last success: run",
  andMore: (n: string) => `and ${n} more`,
  position: (n: number) => `position ${n} in the queue of its project`,
  startsIn: (wait: string) => `starts in about ${wait} (estimate)`,
  approvals: (n: number, of: number, who: string) => `approved by ${n} of ${of}${who ? ` (${who})` : ""}`,
  approvalEnds: (left: string) => `refused in ${left} unless approved`,
  nextFailed: "Next failed",
  showGraph: "Show the graph",
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
  parent: "Parent run",
  overlays: "Changed while it ran",
  document: "Plan document",
  noDocument: "No worker has fetched the plan yet; it appears here when one has.",
  download: "Download",
  cut: "It is longer than what is shown; the file has all of it.",
};

export const artifacts = {
  none: "No step has left an artifact.",
  kind: "Kind",
  step: "Step",
  attempt: "Attempt",
  size: "Size",
  sha256: "SHA-256",
  uri: "Address",
};

export const events = {
  empty: "No events yet.",
  dropped: (n: number) => `The oldest ${plural(n, "event")} are not kept on this page. The export has only what is shown.`,
  types: "Types of events",
  export: "Export JSON Lines",
  noneMatch: "No event matches. Choose other types.",
  unused: (from: number, to: number) => (from === to ? `seq ${from} unused` : `seq ${from} to ${to} unused`),
};

export const time = {
  title: "Time machine",
  viewing: (seq: number) => `Viewing seq ${seq},`,
  off: "Actions are off.",
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
