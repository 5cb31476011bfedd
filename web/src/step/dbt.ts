// The tones of dbt's statuses; unknown ones have none.
import type { CauseNodesQuery } from "../api/gen/graphql";
import type { Tone } from "../ui/tones";

export const DBT_TONES: Readonly<Record<string, Tone>> = {
  success: "success",
  pass: "success",
  error: "failed",
  fail: "failed",
  "runtime error": "failed",
  warn: "person",
  skipped: "skipped",
};

/** The statuses of nodes that make dbt fail. */
export const DBT_FAILING = Object.keys(DBT_TONES).filter((status) => DBT_TONES[status] === "failed");

export function isDbt(type: string): boolean {
  return type.startsWith("DBT_");
}

type Nodes = NonNullable<NonNullable<NonNullable<CauseNodesQuery["run"]>["step"]>["dbtNodes"]>;

/** The dbt nodes behind a failure. */
export interface Failing {
  /** The resource type of the first one: model, test, seed. */
  kind: string;
  failed: number;
  skipped: number;
  /** The statuses of the failed nodes. */
  statuses: string[];
  /** The first failed node that has compiled SQL to show. */
  sql: { uniqueId: string; name: string } | null;
}

/** The failing nodes; null when dbt failed before or outside of its nodes. */
export function failingOf(nodes: Nodes | null): Failing | null {
  const first = nodes?.edges[0]?.node;
  if (!nodes || !first) return null;
  const failed = nodes.byStatus.filter(({ status }) => DBT_FAILING.includes(status));
  return {
    kind: first.resourceType.replaceAll("_", " "),
    failed: failed.reduce((sum, { count }) => sum + count, 0),
    skipped: nodes.byStatus.find(({ status }) => DBT_TONES[status] === "skipped")?.count ?? 0,
    statuses: failed.map(({ status }) => status),
    sql: first.compiledSql === null ? null : { uniqueId: first.uniqueId, name: first.name },
  };
}

/** The rows of models that the result of a step counts, by name: adapters that do not report them have them counted. */
export function countedRows(result: unknown): ReadonlyMap<string, number> {
  const rows: unknown = typeof result === "object" && result !== null && "rows" in result ? result.rows : null;
  if (typeof rows !== "object" || rows === null) return new Map();
  return new Map(Object.entries(rows).filter((entry): entry is [string, number] => typeof entry[1] === "number"));
}
