// Writes the audit as a file: the filter first, then one row for each entry.
import type { AuditFieldsFragment, AuditFilter } from "../api/gen/graphql";
import { cell } from "../format/csv";

const FIELDS = [
  "no",
  "at",
  "actor",
  "action",
  "runId",
  "signalId",
  "outcome",
  "code",
  "reason",
  "requestId",
  "detail",
] as const;

function value(entry: AuditFieldsFragment, field: (typeof FIELDS)[number]): string {
  if (field === "no") return String(entry.no);
  return entry.row?.[field] ?? "";
}

export function auditCsv(filter: AuditFilter, entries: readonly AuditFieldsFragment[]): string {
  const rows = entries.map((entry) => FIELDS.map((field) => cell(value(entry, field))).join(","));
  return [cell(`# filter ${JSON.stringify(filter)}`), FIELDS.join(","), ...rows, ""].join("\r\n");
}

export function auditLines(filter: AuditFilter, entries: readonly AuditFieldsFragment[]): string {
  return [
    JSON.stringify({ filter }),
    ...entries.map((entry) => JSON.stringify({ no: entry.no, id: entry.id, ...entry.row })),
    "",
  ].join("\n");
}
