// What dbt's statuses mean; those that are not known look plain.
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

/** The statuses of nodes that are why dbt failed. */
export const DBT_FAILING = Object.keys(DBT_TONES).filter((status) => DBT_TONES[status] === "failed");

export function isDbt(type: string): boolean {
  return type.startsWith("DBT_");
}

type Nodes = NonNullable<NonNullable<NonNullable<CauseNodesQuery["run"]>["step"]>["dbtNodes"]>;

/** Which of dbt's nodes a failure is. */
export interface Failing {
  /** What the first of them is, in dbt's word: model, test, seed. */
  kind: string;
  failed: number;
  skipped: number;
  /** The statuses that the failed ones have. */
  statuses: string[];
  /** The first failed node that has compiled SQL to show. */
  sql: { uniqueId: string; name: string } | null;
}

/** Null when no node is known to have failed: dbt did not come so far, or something else of it did. */
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
