import type { BulkProgressFragment } from "../api/gen/graphql";

/** The results by which the rows of a bulk are told apart; `failed` is every way not to take effect. */
export const RESULTS = ["failed", "waiting", "accepted", "rejected", "refused", "notSent"] as const;
export type BulkResult = (typeof RESULTS)[number];

/** Rows that took no effect. */
export function failedOf({ counts, applications }: BulkProgressFragment): number {
  return counts.rejected + counts.refused + applications.notApplied;
}

/** Runs whose end is known. */
export function settled({ counts, applications }: BulkProgressFragment): number {
  return counts.rejected + counts.refused + applications.applied + applications.noop + applications.notApplied;
}

/** Whether no row has an end to come. */
export function done(bulk: BulkProgressFragment): boolean {
  return settled(bulk) + bulk.counts.notSent === bulk.counts.total;
}

/** Rows of a result; of all when it is undefined. */
export function countOf(bulk: BulkProgressFragment, result: BulkResult | undefined): number {
  if (result === undefined) return bulk.counts.total;
  return result === "failed" ? failedOf(bulk) : bulk.counts[result];
}
