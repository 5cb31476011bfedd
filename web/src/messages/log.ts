// The log of a step, and the search in logs.
import { plural } from "../format/format";

const log = {
  find: "Find in log",
  findIn: (n: number) => `Find in ${plural(n, "line")}`,
  none: "This attempt printed nothing.",
  unordered: "stdout and stderr were read separately: the order of their lines to each other is not known.",
  waiting: "Nothing printed yet. New lines appear here.",
  tryBegins: (n: number, of: number | null) => `Try ${n}${of === null ? "" : ` of ${of}`}, started`,
  tryWaits: (n: number, of: number, time: string) => `Try ${n} of ${of} starts in ${time}`,
  fold: "Only errors",
  folded: (lines: string) => `${lines} lines`,
  full: "Fill the window",
  notFull: "Back to the run",
  follow: "Follow",
  wrap: "Wrap",
  lines: (n: number) => plural(n, "line"),
  matches: (i: string, n: string) => `${i} of ${n}`,
  errors: "Errors",
  list: "List of errors",
  listWord: "List",
  errorLines: "Lines that mention an error",
  noErrors: "No line mentions an error.",
  errorsShown: (from: string, to: string, of: string) => `${from} to ${to} of ${of}`,
  raw: "Raw",
  copyLink: (line: number) => `Copy link to line ${line}`,
  linkCopied: "Link copied",
  download: "Download",
  link: (no: number) => `Link to line ${no}`,
  keys: {
    error: "Next line of the log that mentions an error",
    wrap: "Wrap lines of the log",
    follow: "Follow the log",
    find: "Find in the log",
  },
  noMatches: "no match",
  newLines: (n: number) => `${plural(n, "new line")} below`,
  live: "live",
  previous: "Previous match",
  next: "Next match",
};

const logSearch = {
  text: "Search logs",
  where: "Where to search",
  thisRun: "In this run",
  lastRuns: (n: number, plan: string) => `In the last ${n} runs of ${plan}`,
  hint: "Searches the output of all steps. Case-sensitive.",
  searching: "Searching…",
  none: (text: string) => `No log contains “${text}”. Capital and small letters must match.`,
  instead: (text: string) => `Search “${text}”`,
  results: "Logs with matches",
  matches: (n: number) => plural(n, "match", "matches"),
  partial: "searched up to 64 MiB",
  more: "Search on",
  run: (id: string) => `run ${id}`,
};

/** Only views of a run have these texts, so they are no part of the first load. */
export const logWords = { log, logSearch };
