// The search parameters of addresses. Unknown or wrong ones are ignored, and never lead to an error page.
import * as z from "zod/mini";
import { RESULTS } from "../bulk/results";
import { COLUMNS } from "../runlist/columns";
import { momentOf } from "../runlist/query";
import { SORTS } from "../runlist/sorts";
import { RUN_STATUSES, RUN_VIEWS, STEP_FILTERS, STEP_SORTS, STEP_TABS, TIMELINE_ORDERS } from "../address/views";

const LONGEST_LIST = 1_000;

// The router validates its own results again, so a schema must accept its output.
const written = z.pipe(
  z.transform((value: unknown) => (typeof value === "number" || Array.isArray(value) ? String(value) : value)),
  z.string(),
);

const wordsOf = (text: string): string[] => text.toLowerCase().split(",");

/** A comma-separated list of known words, in any case. */
function words<T extends string>(known: readonly T[]) {
  return z.catch(
    z.optional(
      z.pipe(
        written,
        z.transform((text: string): T[] | undefined => {
          const list = known.filter((word) => wordsOf(text).includes(word.toLowerCase()));
          return list.length > 0 ? list : undefined;
        }),
      ),
    ),
    undefined,
  );
}

/** A number that matches the pattern. */
function number(pattern: RegExp) {
  return z.catch(
    z.optional(z.pipe(z.pipe(written, z.string().check(z.regex(pattern))), z.transform(Number))),
    undefined,
  );
}

const LONGEST_TEXT = 200;
const text = z.catch(z.optional(z.string().check(z.minLength(1), z.maxLength(LONGEST_TEXT))), undefined);

/** A comma-separated list of any words. */
const texts = z.catch(
  z.optional(
    z.pipe(
      written,
      z.transform((text: string): string[] | undefined => {
        const list = text
          .slice(0, LONGEST_LIST)
          .split(",")
          .filter((word) => word !== "");
        return list.length > 0 ? list : undefined;
      }),
    ),
  ),
  undefined,
);

/** The longest id of a dbt node; dbt shortens those of tests. */
const LONGEST_NODE = 500;

const seq = number(/^\d{1,15}$/);

export const rootSearch = z.object({ tz: z.catch(z.optional(z.enum(["utc", "local"])), undefined) });

const moment = z.catch(
  z.optional(z.string().check(z.refine((value) => momentOf(value, 0, "utc") !== null))),
  undefined,
);

export const runsSearch = z.object({
  status: words(RUN_STATUSES),
  project: text,
  env: text,
  plan: text,
  tag: text,
  by: text,
  q: text,
  from: moment,
  to: moment,
  sort: z.catch(z.optional(z.enum(SORTS)), undefined),
  cols: words(COLUMNS),
  unread: text,
});

/**
 * The query of the runs page. It names in `unread` the parameters that it does not understand: a list that is longer
 * than the one somebody asked for must say so.
 */
export function readRunsSearch(search: Record<string, unknown>): z.infer<typeof runsSearch> {
  const read = runsSearch.parse(search);
  const isRead = (key: string, value: unknown): boolean =>
    key === "tz" ||
    (key === "status" && String(value) !== "" && read.status?.length === wordsOf(String(value)).length) ||
    (key !== "status" && key in read && read[key as keyof typeof read] !== undefined);
  const unread = Object.entries(search)
    .filter(([key, value]) => value !== undefined && value !== "" && !isRead(key, value))
    .map(([key, value]) => `${key}=${String(value)}`);
  return unread.length > 0 ? { ...read, unread: unread.join(" ").slice(0, LONGEST_TEXT) } : read;
}

export const bulkSearch = z.object({ result: z.catch(z.optional(z.enum(RESULTS)), undefined) });

export const INBOX_PARTS = ["me", "all", "done"] as const;
export type InboxPart = (typeof INBOX_PARTS)[number];

export const inboxSearch = z.object({
  show: z.catch(z.optional(z.enum(INBOX_PARTS)), undefined),
  project: text,
  env: text,
});

export const startSearch = z.object({ from: text, project: text, env: text, plan: text });

export const plansSearch = z.object({ project: text, env: text, q: text });

/** A plan is named by its id, its project and its environment. */
export const planSearch = z.object({ project: text, env: text });

export const compareSearch = z.object({
  a: text,
  b: text,
  all: z.catch(z.optional(z.literal("yes")), undefined),
  sort: z.catch(z.optional(z.enum(["slower", "name"])), undefined),
});

export const artifactSearch = z.object({ uri: text, find: text });

export const runSearch = z.object({
  view: z.catch(z.optional(z.enum(RUN_VIEWS)), undefined),
  step: text,
  attempt: number(/^\d{1,6}$/),
  tab: z.catch(z.optional(z.enum(STEP_TABS)), undefined),
  show: words(STEP_FILTERS),
  /** The search text in the log of the shown attempt. */
  q: text,
  /** A part of the names of the steps in the table. */
  find: text,
  group: text,
  /** The step and the kind of the artifacts in the list. */
  of: text,
  kind: text,
  sort: z.catch(z.optional(z.enum(STEP_SORTS)), undefined),
  /** A line of the log of the shown attempt. */
  line: number(/^[1-9]\d{0,8}$/),
  /** The statuses of the listed dbt nodes, and the node whose compiled SQL is open. */
  nodes: texts,
  sql: z.catch(z.optional(z.string().check(z.minLength(1), z.maxLength(LONGEST_NODE))), undefined),
  /** The open step fills the window. */
  full: z.catch(z.optional(z.literal("yes")), undefined),
  /** The text that is searched for in all logs, and the number of earlier runs of the plan to search as well. */
  text,
  runs: number(/^(?:[1-9]|1\d|20)$/),
  /** A position of the run's log, and another to compare it with. */
  at: seq,
  diff: seq,
  /** Types of events, and the event whose payload is open. */
  types: texts,
  seq,
  /** The step in the middle of the Focus graph, and its number of hops. */
  focus: text,
  hops: number(/^[1-9]$/),
  /** Groups are collapsed, except the open ones. */
  groups: z.catch(z.optional(z.literal("collapsed")), undefined),
  open: text,
  /** Shows the whole graph of a run that opens as a mosaic. */
  whole: z.catch(z.optional(z.literal("yes")), undefined),
  order: z.catch(z.optional(z.enum(TIMELINE_ORDERS)), undefined),
  critical: z.catch(z.optional(z.enum(["yes", "only"])), undefined),
  /** The visible part of the timeline: milliseconds since the run's start, from-to. */
  span: z.catch(z.optional(z.string().check(z.regex(/^\d{1,12}-\d{1,12}$/))), undefined),
});

export const dlqSearch = z.object({ all: z.catch(z.optional(z.literal("yes")), undefined), run: text });

export const ALERT_STAGES = ["OPEN", "ACKNOWLEDGED", "RESOLVED"] as const;
export const ALERT_LEVELS = ["HIGH", "MEDIUM", "LOW"] as const;

/** Lists, because the address may name several; the page's own filter sets one. */
export const alertsSearch = z.object({ stage: words(ALERT_STAGES), level: words(ALERT_LEVELS) });

/** All incidents, also the closed ones. */
export const incidentsSearch = z.object({ all: z.catch(z.optional(z.literal("yes")), undefined) });

export const auditSearch = z.object({
  actor: text,
  action: text,
  outcome: text,
  run: text,
  request: text,
  from: moment,
  to: moment,
  seals: z.catch(z.optional(z.literal("yes")), undefined),
});

export const ADMIN_PARTS = ["tokens", "policy", "quotas", "service", "secrets", "retention", "erasure"] as const;
export type AdminPart = (typeof ADMIN_PARTS)[number];

/** Reads parameters as plain text, so that people can read and write addresses. */
export function parseSearch(search: string): Record<string, string> {
  return Object.fromEntries(new URLSearchParams(search));
}

export function stringifySearch(search: Record<string, unknown>): string {
  const params = new URLSearchParams();
  for (const [key, value] of Object.entries(search)) {
    if (value !== undefined && value !== null && value !== "") params.set(key, String(value));
  }
  const text = params.toString().replaceAll("%2C", ",");
  return text === "" ? "" : `?${text}`;
}
