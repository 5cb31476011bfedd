/** The results by which the rows of a bulk are told apart; `failed` is every way not to take effect. */
export const RESULTS = ["failed", "waiting", "accepted", "rejected", "refused", "notSent"] as const;
export type BulkResult = (typeof RESULTS)[number];
