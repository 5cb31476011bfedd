// Statuses of runs and steps.

export const status = {
  pending: "Pending",
  neverStarted: "Never started",
  queued: "Queued",
  approved: "Approved",
  running: "Running",
  awaitingOperator: "Failed, waiting",
  waitingManual: "Waiting for a person",
  compensating: "Compensating",
  paused: "Paused",
  draining: (n: number) => `Paused · draining ${n}`,
  completed: "Completed",
  succeeded: "Succeeded",
  kept: "Kept",
  keptFrom: (run: string) => `Kept from ${run}`,
  waitsForApproval: "Waiting for approval",
  failed: "Failed",
  cancelled: "Cancelled",
  skipped: "Skipped",
  retryLatched: "Retry pending",
  unknown: (raw: string) => `Unknown "${raw}"`,
};
