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
  keptFrom: (run: string) => `Kept from ${run}`,
  waitsForApproval: (given: number, required: number) => `Waiting for approval, ${given} of ${required}`,
  failed: "Failed",
  cancelled: "Cancelled",
  skipped: "Skipped",
  retryLatched: "Retry pending",
  unknown: (raw: string) => `Unknown "${raw}"`,
};
