// Repeated refusals become one row with a count, so that they do not push other rows off the page.
import type { AuditFieldsFragment } from "../api/gen/graphql";

export interface AuditLine {
  /** The newest of the repeated rows. */
  entry: AuditFieldsFragment;
  count: number;
  /** The number of the oldest repeated row. */
  firstNo: number;
}

/** The key by which refusals are equal; null for a row that is not a refusal. */
function refusal({ row }: AuditFieldsFragment): string | null {
  if (!row || row.outcome === "ACCEPTED") return null;
  return JSON.stringify([row.outcome, row.actor, row.action, row.runId, row.code, row.reason, row.detail]);
}

/** Joins consecutive refusals that differ only in their time. All other rows stay as they are. */
export function coalesce(entries: readonly AuditFieldsFragment[]): AuditLine[] {
  const lines: AuditLine[] = [];
  for (const entry of entries) {
    const last = lines.at(-1);
    const key = refusal(entry);
    if (last && key !== null && refusal(last.entry) === key) {
      last.count += 1;
      last.firstNo = entry.no;
    } else lines.push({ entry, count: 1, firstNo: entry.no });
  }
  return lines;
}
