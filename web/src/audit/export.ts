// Writes the audit as a file, with the columns and members of `dvt audit export`.
import type { AuditFieldsFragment } from "../api/gen/graphql";
import { cell } from "../format/csv";

const ROW_FIELDS = [
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
  "hash",
  "credential",
  "address",
  "via",
  "object",
  "digest",
] as const;
const FIELDS = ["no", "id", ...ROW_FIELDS] as const;
const REMOVED = "REMOVED";

function value(entry: AuditFieldsFragment, field: (typeof FIELDS)[number]): string {
  if (field === "no") return String(entry.no);
  if (field === "id" || field === "hash") return entry[field];
  if (entry.row === null) return field === "code" ? REMOVED : "";
  return entry.row[field];
}

export function auditCsv(entries: readonly AuditFieldsFragment[]): string {
  const rows = entries.map((entry) => FIELDS.map((field) => cell(value(entry, field))).join(","));
  return [FIELDS.join(","), ...rows, ""].join("\r\n");
}

export function auditLines(entries: readonly AuditFieldsFragment[]): string {
  return [...entries.map((entry) => JSON.stringify(entry)), ""].join("\n");
}
