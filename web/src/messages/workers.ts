// The workers that run the steps of programs. They are loaded with their page.
import { plural } from "../format/format";

export const workers = {
  title: "Workers",
  says: "Data workers that reported in the last 24 hours. Each reports every 20 seconds.",
  empty:
    "No data worker has reported in the last 24 hours: steps that need one wait. docs/operations.md says how to start one.",
  worker: "Worker",
  queue: "Queue",
  state: "State",
  states: {
    OK: "Takes steps",
    SILENT: "Silent",
    OVERDUE: "May be gone:",
    FAILED: "Sandbox failed",
    DRAINING: "Draining",
    DRAINED: "Drained",
  },
  missed: "two reports are missing.",
  last: "The only one of its queue",
  room: (n: number, queues: number, free: number) =>
    n === 0
      ? "No worker takes steps now."
      : `${plural(n, "worker")} ${n === 1 ? "takes" : "take"} steps of ${plural(queues, "queue")}; ${plural(free, "slot")} ${free === 1 ? "is" : "are"} free.`,
  unserved: (queue: string) => `Nobody serves ${queue}: its steps wait.`,
  mayDrain: "You need the SRE role to drain a worker.",
  runs: "In use",
  of: (inUse: number, slots: number) => `${inUse} of ${plural(slots, "slot")}`,
  unknown: "Unknown",
  steps: (n: number) => plural(n, "step"),
  more: (n: number) => `and ${n} more`,
  ofTenant: (tenant: string) => `a step of ${tenant}`,
  since: "since",
  version: "Version",
  heard: "Last report",
  sandbox: "Sandbox",
  lacks: "Cannot limit",
  drained: (actor: string, reason: string) => `by ${actor}: ${reason}`,
  silentDrain: (actor: string, reason: string) => `(drained by ${actor}: ${reason})`,
  act: "Action",
  drain: "Drain",
  undrain: "End drain",
  drainOf: (worker: string) => `Drain ${worker}`,
  undrainOf: (worker: string) => `End the drain of ${worker}`,
  drainMeans: "Within 20 seconds the worker begins no further steps. A new process of it is not drained.",
  runsNow: (n: number) =>
    n === 0 ? "It ran nothing when it last reported." : `The ${plural(n, "step")} that it runs will go on.`,
  alone: (queues: readonly string[]) =>
    `No other worker serves ${queues.join(", ")}: new steps wait there until one does.`,
  undrainMeans: "Within 20 seconds the worker begins steps again.",
  didDrain: (worker: string) => `Drained the worker ${worker}`,
  didUndrain: (worker: string) => `Ended the drain of the worker ${worker}`,
} as const;
