// The page that says who read which secret. Only that page loads it.
import { count, plural } from "../format/format";

export const secrets = {
  title: "Secret reads",
  says: "Each read of a secret by a worker, recorded before the step gets the value. The records cannot be changed, and no page shows a value.",
  at: "Time",
  secret: "Secret",
  run: "Run",
  step: "Step",
  attempt: "Attempt",
  worker: "Worker",
  result: "Result",
  key: "Key",
  runId: "Run id",
  since: "Since",
  days: "2026-11-21 or -2h",
  find: "Find",
  clear: "Clear filter",
  read: "read",
  cached: "remembered",
  /** Why a step got no value. */
  refused: {
    SECRET_NOT_FOUND: "not found: the provider has no such key",
    SECRET_DENIED: "denied: the provider refused the worker",
  } as Readonly<Record<string, string>>,
  empty: "No recorded read of a secret matches.",
  csv: "Export CSV",
  exporting: (n: number) => `${plural(n, "record")} so far…`,
  cut: (n: number) =>
    `The newest ${count(n)} records were exported. Narrow the filter, or use \`dvt secrets export\` for all of them.`,
};
