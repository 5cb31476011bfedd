// Writes reads of secrets as a file, with the members of `dvt secrets export` as columns.
import type { SecretAccessFieldsFragment } from "../api/gen/graphql";
import { cell } from "../format/csv";

const FIELDS = [
  "at",
  "provider",
  "key",
  "version",
  "answeredVersion",
  "runId",
  "stepId",
  "logicalAttemptId",
  "engineAttemptId",
  "account",
  "worker",
  "as",
  "cached",
  "code",
] as const satisfies readonly (keyof SecretAccessFieldsFragment)[];

export function secretReadsCsv(reads: readonly SecretAccessFieldsFragment[]): string {
  const rows = reads.map((read) => FIELDS.map((field) => cell(String(read[field] ?? ""))).join(","));
  return [FIELDS.join(","), ...rows, ""].join("\r\n");
}
