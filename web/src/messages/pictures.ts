// Graph, mosaic, timeline and table of the steps.
import { count, plural } from "../format/format";

const graph = {
  blocks: (n: number) => `blocks ${n}`,
  blocked: "blocked",
  held: "held by a failure",
  nextFailed: "Next failed",
  previousFailed: "Previous failed",
  whole: "All as a graph",
  asGroups: "Groups as a graph",
  collapse: "Collapse groups",
  group: (name: string, n: number, tally: readonly string[]) =>
    `Group ${name}, ${plural(n, "step")}: ${tally.join(", ")}. Opens it.`,
  done: (n: number, of: number) => (n === of ? `${count(of)} done` : `${count(n)} of ${count(of)} done`),
  behind: (n: number) => `${count(n)} ${n === 1 ? "needs" : "need"} a failed step`,
  fit: "Fit",
  zoomIn: "Zoom in",
  zoomOut: "Zoom out",
  minimap: "Go to a part of the graph",
  layingOut: "Laying out the graph",
  summary: (total: number) =>
    `${plural(total, "step")} as a graph. Arrow keys follow the edges, n goes to the next failed step, Enter opens a step. The Steps view has the same as a table.`,
  toMosaic: "Mosaic",
  toGraph: "Whole graph",
  around: (step: string) => `Around ${step}`,
  hops: (n: number) => plural(n, "hop"),
  moreHops: "One hop more",
  fewerHops: "One hop fewer",
  cut: (shown: number, within: number) => `the nearest ${count(shown)} of ${plural(within, "step")}`,
};

const grid = {
  show: "Show steps",
  find: "Find a step",
  group: "Group",
  allGroups: "All groups",
  failedOrCancelled: "Failed or cancelled",
  skippedAfter: (why: string, code: string, message: string) => `${why}, after it failed: ${code} ${message}`.trim(),
  succeededOrKept: "Succeeded or kept",
  failedFirst: "Failed first",
  held: "Held by a failure",
  blocked: "Need a failed step",
  down: "Next step",
  up: "Previous step",
  sortBy: (column: string) => `Sort by ${column}`,
  pace: {
    slower: (by: string, times: number) =>
      `+${by} slower${times >= 1.1 && times < 100 ? ` (${times.toFixed(1)}×)` : ""}`,
    faster: (by: string) => `−${by} faster`,
    usual: "≈ as usual",
  },
  medianOf: (ms: string) => `usually ${ms}, by earlier runs of the plan`,
  selectAll: "Select all steps shown",
  select: (step: string) => `Select ${step}`,
  label: (shown: number, total: number) =>
    shown === total ? `${plural(total, "step")}` : `${count(shown)} of ${plural(total, "step")}`,
  columns: {
    status: "Status",
    step: "Step",
    type: "Type",
    group: "Group",
    attempt: "Attempt",
    waited: "Waited",
    took: "Took",
    median: "vs median",
    cause: "Error or wait",
  },
};

const timeline = {
  step: "Step",
  order: "Order",
  orders: { start: "By start", plan: "As in the plan", longest: "Longest first" },
  critical: "Critical path",
  onPath: "on the critical path",
  onlyPath: "Only these",
  pathLength: (ms: string, share: number) => `${ms}, ${Math.round(share * 100)} % of the working time`,
  failed: "failed",
  stopped: "stopped",
  usual: "usual end",
  now: "now",
  shorten: "Shorten waits",
  paused: (took: string) => `${took} paused`,
  breaks: {
    person: (took: string) => `${took} waiting for a person (shortened)`,
    pause: (took: string) => `${took} paused (shortened)`,
    idle: (took: string) => `${took} in which nothing ran (shortened)`,
  },
  legend: "Meaning of the bars",
  whole: "Whole run",
  times: (zone: string) => `Time (${zone}); drag to look closer`,
  summary: (total: number) =>
    `Timeline of ${plural(total, "step")}. Plus and minus zoom, arrows left and right move, x marks the critical path.`,
  thenWaited: (took: string, still: boolean) => `, then ${still ? "waiting" : "waited"} ${took}`,
  kinds: {
    waiting: "waited",
    tries: "earlier tries",
    running: "ran",
    backoff: "waited for a retry",
    person: "waited for a person",
  },
  /** Of a bar that has not ended. */
  kindsNow: {
    waiting: "waiting",
    tries: "earlier tries",
    running: "running",
    backoff: "waiting for a retry",
    person: "waiting for a person",
  },
  meaning: {
    waiting: "waiting",
    running: "succeeded",
    backoff: "waiting for a retry",
    person: "waiting for a person",
    tries: "tries before the last",
  },
};

const mosaic = {
  title: "Mosaic of the steps",
  sort: "Sort again",
  groups: {
    failed: "Failed",
    waiting: "Waiting for a person",
    running: "Running",
    pending: "Pending",
    skipped: "Skipped",
    ok: "Succeeded",
  },
  part: (n: number, group: string) => `${count(n)} ${group}`,
  summary: (total: number, parts: readonly string[]) =>
    `${plural(total, "step")}: ${parts.join(", ")}. Arrow keys go from step to step, n to the next failed one, Enter opens it, Space shows the graph around it. The Steps view has the same as a table.`,
};

/** Only views of a run have these texts, so they are no part of the first load. */
export const pictures = { graph, grid, timeline, mosaic };
