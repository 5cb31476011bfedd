// The nodes of dbt in a step. It is loaded with their list.
import { plural } from "../format/format";

export const models = {
  none: "No dbt results: the step has not ended, or dbt failed before its first model.",
  all: "All",
  /** A status of dbt in words; an unknown one as dbt writes it. */
  word: (status: string) =>
    (
      ({
        success: "Succeeded",
        pass: "Passed",
        error: "Error",
        "runtime error": "Runtime error",
        fail: "Failed",
        warn: "Warning",
        skipped: "Skipped",
        SUCCESS: "Succeeded",
        FAILED: "Failed",
        WARN: "Warning",
        SKIPPED: "Skipped",
        RUNNING: "Running",
        UNFINISHED: "Unfinished",
      }) as Readonly<Record<string, string>>
    )[status] ?? status,
  more: (n: string) => `Show more of ${n}`,
  sql: "Compiled SQL",
  cut: "The SQL is longer than shown here.",
  rows: (n: number) => plural(n, "row"),
  failures: (n: number) => plural(n, "failing row"),
  /** Types of dbt that have another word here. */
  types: { operation: "hook" } as Readonly<Record<string, string>>,
  needs: (names: readonly string[]) => `reads ${names.join(", ")}`,
  usedBy: (names: readonly string[]) => `read by ${names.join(", ")}`,
  tests: (n: number) => plural(n, "test"),
  skippedBy: (name: string) => `Skipped because ${name} failed.`,
  notShown: (n: string) => `${n} more are not listed here: filter by status.`,
  skippedWhy: "dbt did not run it, because something that it reads failed.",
  noLineage: "What reads what is not shown: this attempt has no manifest.json among its artifacts.",
  largeManifest: (size: string) => `What reads what is in the manifest, which has ${size}.`,
  readLineage: "Read it",
  noRows:
    "Rows are not shown: the adapter does not report them. A project can count them, as the macro report_rows of the sample does; the counts come with a step that succeeds.",
  filter: "Show nodes",
};
