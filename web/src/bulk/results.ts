import type { BulkProgressFragment } from "../api/gen/graphql";

/** The results by which rows are filtered; `failed` means that the row took no effect. */
export const RESULTS = ["failed", "waiting", "accepted", "rejected", "refused", "notSent"] as const;
export type BulkResult = (typeof RESULTS)[number];

/** The number of rows that took no effect. */
export function failedOf({ counts, applications }: BulkProgressFragment): number {
  return counts.rejected + counts.refused + applications.notApplied;
}

/** The number of rows whose result is final. */
export function settled({ counts, applications }: BulkProgressFragment): number {
  return counts.rejected + counts.refused + applications.applied + applications.noop + applications.notApplied;
}

/** Whether every row has a final result. */
export function done(bulk: BulkProgressFragment): boolean {
  return settled(bulk) + bulk.counts.notSent === bulk.counts.total;
}

/** The number of rows with a result, or of all rows. */
export function countOf(bulk: BulkProgressFragment, result: BulkResult | undefined): number {
  if (result === undefined) return bulk.counts.total;
  return result === "failed" ? failedOf(bulk) : bulk.counts[result];
}

/** The number of new runs of a rerun that failed. */
export function failedAgain({ action, runs }: Pick<BulkProgressFragment, "action" | "runs">): number {
  return action === "RERUN" ? runs.failed : 0;
}
