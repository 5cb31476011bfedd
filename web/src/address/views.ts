// The views, tabs and filters that addresses name.
export const RUN_VIEWS = ["graph", "timeline", "steps", "events", "receipts", "artifacts", "details", "logs"] as const;
export type RunView = (typeof RUN_VIEWS)[number];

export const STEP_TABS = ["error", "log", "models", "inputs", "output", "artifacts", "timing", "worker"] as const;
export type StepTab = (typeof STEP_TABS)[number];

/** Clears the search parameters of one attempt of one step, when another one is opened. */
export const RESET_STEP_PARAMS = {
  attempt: undefined,
  line: undefined,
  q: undefined,
  nodes: undefined,
  sql: undefined,
  full: undefined,
} as const;

/**
 * A router state that asks to bring the log into view. It has a new value for each click, even when the address stays
 * the same.
 */
export const readLog = (): { log: number } => ({ log: Date.now() });

/** HELD: pending steps that a failed step keeps from starting. BLOCKED: those of them that need a failed step. */
export const STEP_FILTERS = [
  "FAILED",
  "WAITING",
  "RUNNING",
  "PENDING",
  "HELD",
  "BLOCKED",
  "SUCCESS",
  "SKIPPED",
] as const;
export type StepFilter = (typeof STEP_FILTERS)[number];

/** The first is the default. */
export const STEP_SORTS = ["failed", "plan", "took", "median"] as const;
export type StepSort = (typeof STEP_SORTS)[number];

export const TIMELINE_ORDERS = ["start", "plan", "longest"] as const;
export type TimelineOrder = (typeof TIMELINE_ORDERS)[number];

/** AWAITING: a step failed and the run waits for an operator; it is RUNNING for the API. */
export const RUN_STATUSES = ["PENDING", "RUNNING", "PAUSED", "AWAITING", "FAILED", "COMPLETED", "CANCELLED"] as const;
export type RunStatusFilter = (typeof RUN_STATUSES)[number];
