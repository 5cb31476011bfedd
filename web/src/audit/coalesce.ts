// The same refusal, again and again, is one row with a count: it must not push what matters off the page.
import type { AuditFieldsFragment } from "../api/gen/graphql";

export interface AuditLine {
  /** The newest of those that are alike. */
  entry: AuditFieldsFragment;
  count: number;
  /** The number of the oldest of them. */
  firstNo: number;
}

/** What makes refusals alike; null for what was not refused. */
function refusal({ row }: AuditFieldsFragment): string | null {
  if (!row || row.outcome === "ACCEPTED") return null;
  return JSON.stringify([row.outcome, row.actor, row.action, row.runId, row.code, row.reason, row.detail]);
}

/** Refusals that follow each other and differ in nothing but their time come together; all other rows stay as they are. */
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
