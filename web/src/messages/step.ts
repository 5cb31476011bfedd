// One step and its log.
import { count, plural } from "../format/format";

export const step = {
  close: "Close step",
  width: "Width of the step",
  attempts: "Attempts",
  parts: (id: string) => `Parts of ${id}`,
  tabs: {
    error: "Error",
    log: "Log",
    models: "Models",
    inputs: "Inputs",
    output: "Outputs",
    artifacts: "Artifacts",
    timing: "Timing",
    worker: "Details",
  },
  noInputs: "The inputs are not known yet: no worker has fetched the plan.",
  changed: "Changed during the run:",
  params: "Run parameters",
  secrets: "Secrets",
  secretsRead: "The worker reads them when an attempt starts. No page shows their values.",
  secretAs: (as: string) => (as.startsWith("env:") ? `as the variable ${as.slice(4)}` : `as the file ${as.slice(5)}`),
  secretNotRead: "not read by this attempt",
  secretFailed: (code: string) => `not read: ${code}`,
  secretFrom: (provider: string, version: string | null, cached: boolean) =>
    `${cached ? "remembered from" : "read from"} ${provider}${version === null ? "" : `, version ${version}`}`,
  median: (ms: string) => `usually ${ms}`,
  inTries: (n: number, last: string | null) => `in ${count(n)} tries${last === null ? "" : `, the last ${last}`}`,
  /** The nodes of dbt in a step that ended, of how many. */
  nodes: ({
    total,
    success,
    warn,
    failed,
    skipped,
  }: Record<"total" | "success" | "warn" | "failed" | "skipped", number>) =>
    `${count(success + warn + failed + skipped)} of ${plural(total, "node")}${failed > 0 ? `, ${count(failed)} failed` : ""}`,
  noArtifacts: "This attempt has no artifacts.",
  timing: ["Attempt", "Started", "Ended", "Took"],
  tries: {
    name: (n: number) => `try ${n}`,
    title: "Tries of the platform",
    heads: ["Try", "Ended by", "Started", "Ended", "Last heartbeat", "Exit", "Printed", "Worker"],
    /** How a try ended, in words; an unknown word unchanged. */
    outcome: (word: string) =>
      (
        ({
          RUNNING: "Running",
          SUCCEEDED: "Success",
          FAILED: "Failure",
          STOPPED: "A stop",
          INTERRUPTED: "The stop of its worker",
          LOST: "The loss of its worker",
        }) as Readonly<Record<string, string>>
      )[word] ?? word,
    stack: (n: number) => `Stack of try ${n}`,
    compensation: "Compensation",
    compensated: (done: boolean, n: number) =>
      `${done ? "The effects of the step are undone" : "The effects of the step are not undone"}, in ${plural(n, "try", "tries")}.`,
  },
  facts: {
    id: "Step id",
    dependsOn: "Depends on",
    nothing: "nothing",
    group: "Group",
    queue: "Task queue",
    resources: "Resources",
    engineTry: "Try",
    changed: "Last changed",
  },
  manual: "Waiting since",
  until: "until",
  /** Whose fault a failure is, in words. */
  categories: {
    USER: "caused by the step",
    SYSTEM: "caused by another system",
    PLATFORM: "caused by dvt",
    TIMEOUT: "took too long",
  } as Readonly<Record<string, string>>,
  noError: "This attempt has no error.",
  noOutput: "This step has no outputs yet.",
  noAttempt: "No attempt has started.",
  superseded: "superseded by a later attempt",
  gone: (id: string) => `This run has no step “${id}”.`,
  hideDone: "Hide done",
  noneMatch: "No step matches this filter.",
  wait: {
    DEPENDENCIES: "Waits for its dependencies",
    PAUSED: "Waits because the run is paused",
    FAILED_STEP: "Blocked by a failed step",
    FAIL_FAST: "Nothing new starts in this run",
    WORKER: "Waits for a worker",
    PERSON: "Waits for a person",
    OPERATOR: "Waits for somebody to retry or skip it",
    RETRY: "Waits to be retried",
  },
  held: (by: "QUOTA" | "JOURNAL" | "STORE", left: string | null) =>
    ({
      QUOTA: "Waits because the quota of heavy steps is used up for now",
      JOURNAL: "Waits because its worker does not reach the journal of the server",
      STORE: "Waits because its worker gets no answer from the store",
    })[by] + (left === null ? "" : `, tried again in ${left}`),
  nextTry: (no: number, of: number, left: string | null) =>
    left === null ? `try ${no} of ${of} waits for a worker` : `try ${no} of ${of} in ${left}`,
  heldBy: (steps: string) => `Nothing new starts until a person retries or skips ${steps}`,
  neverStarted: "Never started: the run was cancelled",
  queueOf: (queue: string) => ` of ${queue}`,
  pollerSeen: (ago: string) => `, the last one seen ${ago}`,
  pollerUnseen: ", none seen within a day",
};
