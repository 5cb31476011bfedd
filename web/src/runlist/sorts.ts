// The orders of the list of runs, and which filters they take. The server refuses the others, because no index serves
// both.
import type { RunOrder } from "../api/gen/graphql";

/** The first is the default, which a query does not name. */
export const SORTS = ["newest", "oldest", "ended", "longest", "shortest", "left"] as const;
export type Sort = (typeof SORTS)[number];

const ORDERS: Record<Sort, RunOrder> = {
  newest: "CREATED_DESC",
  oldest: "CREATED_ASC",
  ended: "ENDED_DESC",
  longest: "DURATION_DESC",
  shortest: "DURATION_ASC",
  left: "TIME_LEFT_ASC",
};

/** The parts of a query that decide how it may be sorted. */
interface Sortable {
  plan?: string | undefined;
  tag?: string | undefined;
  by?: string | undefined;
  q?: string | undefined;
  from?: string | undefined;
  to?: string | undefined;
}

export function orderOf({ sort = "newest" }: { sort?: Sort | undefined }): RunOrder {
  return ORDERS[sort];
}

/** What keeps a query from being sorted so: it names no plan, or it has filters that no index serves together with it. */
export type Obstacle = "plan" | "filters";

export function obstacleOf(sort: Sort, { plan, tag, by, q, from, to }: Sortable): Obstacle | null {
  const waits = sort === "left";
  if (sort === "newest" || sort === "oldest") return null;
  if (tag || q || (!waits && (by || from || to))) return "filters";
  return (sort === "longest" || sort === "shortest") && !plan ? "plan" : null;
}
