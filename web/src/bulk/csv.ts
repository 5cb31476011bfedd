import type { BulkRowFieldsFragment } from "../api/gen/graphql";
import { cell } from "../format/csv";

const HEAD = [
  "no",
  "runId",
  "projectId",
  "environmentId",
  "outcome",
  "code",
  "message",
  "at",
  "signalId",
  "application",
  "applicationReason",
  "acceptedSeq",
  "appliedSeq",
  "newRunId",
  "runStatus",
  "planId",
  "causeStep",
  "causeCode",
  "causeMessage",
];

/** Writes the rows of a bulk as CSV, one line for each run. */
export function bulkCsv(rows: readonly BulkRowFieldsFragment[]): string {
  const lines = rows.map(({ signal, ...row }) =>
    [
      row.no,
      row.runId,
      row.projectId,
      row.environmentId,
      row.outcomeRaw,
      row.code,
      row.message,
      row.at,
      signal?.signalId,
      signal?.application,
      signal?.applicationReason,
      signal?.acceptedSeq,
      signal?.appliedSeq,
      row.newRunId,
      row.runStatus,
      row.planId,
      row.causeStep,
      row.causeCode,
      row.causeMessage,
    ]
      .map((value) => cell(String(value ?? "")))
      .join(","),
  );
  return [HEAD.join(","), ...lines, ""].join("\r\n");
}
