// The audit as a file: its filter first, then a row for each link.
import type { AuditFieldsFragment, AuditFilter } from "../api/gen/graphql";

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

/** A cell that no spreadsheet takes for a formula. */
export function cell(text: string): string {
  const plain = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain;
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

/** Gives the browser a file to keep. */
export function save(name: string, text: string): void {
  saveBlob(name, new Blob([text], { type: "text/plain;charset=utf-8" }));
}

export function saveBlob(name: string, blob: Blob): void {
  const url = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 0);
}
