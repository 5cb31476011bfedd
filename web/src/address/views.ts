// The ways to look at a run; the address names them.
export const RUN_VIEWS = ["graph", "timeline", "steps", "events", "receipts", "artifacts", "details"] as const;
export type RunView = (typeof RUN_VIEWS)[number];

export const STEP_TABS = ["error", "log", "models", "inputs", "output", "artifacts", "timing", "worker"] as const;
export type StepTab = (typeof STEP_TABS)[number];

/** What the address says of one attempt of one step; forgotten when another is opened. */
export const RESET_STEP_PARAMS = {
  attempt: undefined,
  line: undefined,
  q: undefined,
  nodes: undefined,
  sql: undefined,
} as const;

/** The log is asked for, each time anew: beside the address, which may not change. */
export const readLog = (): { log: number } => ({ log: Date.now() });

export const STEP_FILTERS = ["FAILED", "WAITING", "RUNNING", "PENDING", "SUCCESS", "SKIPPED"] as const;
export type StepFilter = (typeof STEP_FILTERS)[number];

/** The first is how the steps stand when nobody says otherwise. */
export const STEP_SORTS = ["failed", "plan", "took", "median"] as const;
export type StepSort = (typeof STEP_SORTS)[number];

export const TIMELINE_ORDERS = ["start", "plan", "longest"] as const;
export type TimelineOrder = (typeof TIMELINE_ORDERS)[number];

export const RUN_STATUSES = ["PENDING", "RUNNING", "PAUSED", "FAILED", "COMPLETED", "CANCELLED"] as const;
export type RunStatusFilter = (typeof RUN_STATUSES)[number];
