// The query of the runs page, which the address and the filter bar hold.
import type { RunFilter } from "../api/gen/graphql";
import { type Column, columnsOf } from "./columns";
import { type Sort, SORTS } from "./sorts";
import { DAY_MS, type Zone } from "../format/format";
import { RUN_STATUSES, type RunStatusFilter } from "../address/views";

export interface RunQuery {
  status?: RunStatusFilter[] | undefined;
  project?: string | undefined;
  env?: string | undefined;
  plan?: string | undefined;
  /** Exactly this tag. */
  tag?: string | undefined;
  /** The principal who started the runs; `me` is the viewer. */
  by?: string | undefined;
  q?: string | undefined;
  /** `-24h`, `-7d`, `today`, `2026-11-22` or `2026-11-22T03:00Z`. */
  from?: string | undefined;
  to?: string | undefined;
  /** Without one, the newest come first. */
  sort?: Sort | undefined;
  /** The columns of the table; without them, those that the viewer prefers. */
  cols?: Column[] | undefined;
  /** Parameters of the address that are not understood. */
  unread?: string | undefined;
}

export const MOMENT = /^(today|-\d{1,4}[mhd]|\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2})?Z)?)$/;

const WORDS = ["project", "env", "plan", "tag", "by"] as const;
const UNITS: Record<string, number> = { m: 60_000, h: 3_600_000, d: DAY_MS };
const MINUTE_MS = 60_000;
/** Appended to a date, which would be UTC without a time. */
const MIDNIGHT = "00:00";

export interface Parsed {
  query: RunQuery;
  /** Tokens that are not understood. */
  unknown: string[];
}

/** Parses a typed filter: `status:failed,paused env:prod plan:nightly from:-24h words`. */
export function parseQuery(text: string): Parsed {
  const query: RunQuery = {};
  const unknown: string[] = [];
  const rest: string[] = [];
  for (const token of text.split(/\s+/).filter((part) => part !== "")) {
    const [key = "", value = ""] = token.includes(":")
      ? [token.slice(0, token.indexOf(":")).toLowerCase(), token.slice(token.indexOf(":") + 1)]
      : [];
    const word = WORDS.find((known) => known === key);
    if (key === "") rest.push(token);
    else if (word && value !== "") query[word] = value;
    else if (key === "status" && value !== "") {
      const wanted = value
        .toUpperCase()
        .split(",")
        .filter((part) => part !== "");
      const statuses = RUN_STATUSES.filter((status) => wanted.includes(status));
      if (statuses.length > 0) query.status = [...(query.status ?? []), ...statuses];
      if (statuses.length < wanted.length) unknown.push(token);
    } else if ((key === "from" || key === "to") && MOMENT.test(value)) query[key] = value;
    else if (key === "sort" && SORTS.some((sort) => sort === value)) {
      if (value !== "newest") query.sort = SORTS.find((sort) => sort === value);
    } else if (key === "cols" && columnsOf(value)) query.cols = columnsOf(value) ?? undefined;
    else unknown.push(token);
  }
  if (rest.length > 0) query.q = rest.join(" ");
  return { query, unknown };
}

/** Writes a query in the form that `parseQuery` reads. */
export function formatQuery({ status, project, env, plan, tag, by, from, to, sort, cols, q }: RunQuery): string {
  const tokens = { status: status?.join(","), project, env, plan, tag, by, from, to, sort, cols: cols?.join(",") };
  return [
    ...Object.entries(tokens).flatMap(([key, value]) => (value ? [`${key}:${value}`] : [])),
    ...(q ? [q] : []),
  ].join(" ");
}

/** The time of a moment in a query; null for none. */
export function momentOf(text: string | undefined, now: number, zone: Zone): number | null {
  if (text === undefined || !MOMENT.test(text)) return null;
  if (text === "today") {
    const day = new Date(now);
    return zone === "utc" ? day.setUTCHours(0, 0, 0, 0) : day.setHours(0, 0, 0, 0);
  }
  if (text.startsWith("-")) return now - Number(text.slice(1, -1)) * (UNITS[text.slice(-1)] ?? 0);
  const at = Date.parse(text.includes("T") || zone === "utc" ? text : `${text}T${MIDNIGHT}`);
  return Number.isNaN(at) ? null : at;
}

/** Writes a moment for a query, rounded down to the minute. */
export function writeMoment(at: number): string {
  return `${new Date(Math.floor(at / MINUTE_MS) * MINUTE_MS).toISOString().slice(0, 16)}Z`;
}

export function toFilter(
  { status, project, env, plan, tag, by, q, from, to }: RunQuery,
  now: number,
  zone: Zone,
): RunFilter {
  const statuses = status?.filter((one) => one !== "AWAITING");
  const createdFrom = momentOf(from, now, zone);
  const createdTo = momentOf(to, now, zone);
  return {
    ...(statuses && statuses.length > 0 ? { statuses } : {}),
    ...(status?.includes("AWAITING") ? { awaitingOperator: true } : {}),
    ...(project ? { projectId: project } : {}),
    ...(env ? { environmentId: env } : {}),
    ...(plan ? { planId: plan } : {}),
    ...(tag ? { tag } : {}),
    ...(by ? { triggeredBy: by } : {}),
    ...(q ? { text: q } : {}),
    ...(createdFrom === null ? {} : { createdFrom: new Date(createdFrom).toISOString() }),
    ...(createdTo === null ? {} : { createdTo: new Date(createdTo).toISOString() }),
  };
}
