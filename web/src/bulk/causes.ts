// Why the runs of a bulk action failed.
import type { BulkRowFieldsFragment } from "../api/gen/graphql";
import { errorSentence } from "../format/errorSentence";

/** Failures that are listed above the rows. */
const MOST = 3;

/** The cause of a row in one sentence; null while no step of its run has failed. */
export function causeOf(row: BulkRowFieldsFragment): string | null {
  return row.causeCode === null ? null : errorSentence(row.causeMessage, row.causeStep);
}

/** The most frequent causes of the runs that failed, with their numbers. */
export function failuresOf(rows: readonly BulkRowFieldsFragment[]): [sentence: string, n: number][] {
  const counts = new Map<string, number>();
  for (const row of rows) {
    const sentence = row.runStatus === "FAILED" && row.outcome === "ACCEPTED" ? causeOf(row) : null;
    if (sentence) counts.set(sentence, (counts.get(sentence) ?? 0) + 1);
  }
  return [...counts].toSorted(([, a], [, b]) => b - a).slice(0, MOST);
}
