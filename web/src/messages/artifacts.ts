import { bytes, count, plural } from "../format/format";

/** The words of the pages of artifacts. They load with those pages. */
export const artifactWords = {
  run: "Run",
  type: "Type",
  expires: "Kept",
  expiresIn: (days: string) => `expires in ${days}`,
  expiredOn: (date: string) => `expired on ${date}`,
  noEnd: "no end is set",
  allSteps: "All steps",
  allKinds: "All kinds",
  noneMatch: "No artifact matches. Choose another step or kind.",
  open: (file: string) => `Open ${file}`,
  download: "Download",
  copyLink: "Copy download link",
  linkCopied: "Copied. It downloads the file without sign-in for 5 minutes.",
  gone: "This run has no such artifact.",
  elsewhere: "This file is stored elsewhere, so dvt cannot open it.",
  removed: "The content of this file was removed",
  removedMeans: "The reference stays in the log of the run. Run the step again to produce the file again.",
  torn: "The stored file is not what the step reported",
  tornMeans: "Some bytes are missing or differ. Restore the object in the bucket, or run the step again.",
  unreadable: "This file could not be read",
  binary: "This file is not text, so it is not shown. Download it to open it.",
  large: (size: number) => `This file has ${bytes(size)}. Reading it can take a while.`,
  readIt: "Read it",
  tooLarge: (size: number, most: number) =>
    `This file has ${bytes(size)}, and this page reads at most ${bytes(most)}. Download it to see it.`,
  cut: (shown: number, size: number | null) =>
    `Only the first ${bytes(shown)}${size === null ? "" : ` of ${bytes(size)}`} are shown. Download the file for all of it.`,
  cutRows: (n: number) => `Only the first ${count(n)} rows are shown. Download the file for all of them.`,
  find: "Find",
  found: (shown: number, all: number, what: string) =>
    shown === all ? plural(all, what) : `${count(shown)} of ${plural(all, what)}`,
  noneFound: "Nothing contains this.",
  empty: "The file is empty.",
  node: "node",
  row: "row",
  line: "line",
  manifestHeads: ["Node", "Type", "Stored as", "Reads", "Read by", "Tests", "File"],
  resultHeads: ["Node", "Status", "Took", "Rows", "Message"],
  asText: "Show as text",
  asTable: "Show as table",
};

/** The words of the nodes of dbt in a step. They load with their list. */
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
  fromAttempt: (n: number) => `From attempt ${n}: the retry did not run it.`,
  retry: {
    open: (n: number) => `Retry failed nodes (${n})…`,
    title: (step: string) => `Retry nodes of ${step}`,
    modes: "What runs again",
    FAILED: "Failed and skipped nodes",
    FAILED_AND_THEIR_TESTED_PARENTS: "Also the models whose tests failed",
    asking: "Asking which nodes would run…",
    would: (n: number, of: number) => `${n} of ${plural(of, "node")} would run. Untick those that must not.`,
    none: "Tick at least one node.",
    tooMany: (most: number) => `Tick all nodes, or at most ${most}.`,
    why: (why: string, of: string | null): string => {
      const words: Readonly<Record<string, string>> = {
        FAILED: "failed",
        UNFINISHED: "had not ended",
        SKIPPED: of === null ? "was skipped" : `was skipped because of ${of}`,
        TESTED_BY: `is tested by ${of}, which failed`,
        TEST_OF: `tests ${of}, which is built again`,
      };
      return words[why] ?? why;
    },
    more: (n: number) => `${n} more nodes are not listed here and would run, too.`,
    send: (n: number) => `Retry ${plural(n, "node")}`,
    sent: "The retry is on its way.",
  },
};
