// The rows of dbt's manifest.json and run_results.json. What versions of dbt write differently is left out.
import { count, fineDuration } from "../format/format";
import { manifestOf, nodeName } from "../step/manifest";
import { isRecord } from "./record";

export interface NodeRow {
  id: string;
  cells: readonly string[];
  /** dbt's status; null in a manifest. */
  status: string | null;
}

/** The nodes of a manifest by name: type, materialization, what it reads, who reads it, tests and file. */
export function manifestRows(document: unknown): NodeRow[] {
  return [...manifestOf(document)]
    .map(([id, { needs, usedBy, tests, materialized, file }]) => ({
      id,
      status: null,
      cells: [
        nodeName(id),
        id.split(".", 1)[0] ?? "",
        materialized ?? "",
        count(needs.length),
        count(usedBy.length),
        count(tests),
        file ?? "",
      ],
    }))
    .toSorted((a, b) => (a.cells[0] ?? "").localeCompare(b.cells[0] ?? ""));
}

const FAILED: readonly unknown[] = ["error", "fail", "runtime error"];
const MS = 1_000;

/** The results of nodes, failed ones first. */
export function resultRows(document: unknown): NodeRow[] {
  const results = isRecord(document) && Array.isArray(document["results"]) ? document["results"].filter(isRecord) : [];
  const rows = results.map((result) => {
    const id = typeof result["unique_id"] === "string" ? result["unique_id"] : "";
    const status = typeof result["status"] === "string" ? result["status"] : "";
    const took = result["execution_time"];
    const adapter = isRecord(result["adapter_response"]) ? result["adapter_response"] : {};
    const rowsAffected = adapter["rows_affected"];
    return {
      id,
      status,
      cells: [
        nodeName(id),
        status,
        typeof took === "number" && took >= 0 ? fineDuration(took * MS) : "",
        typeof rowsAffected === "number" && rowsAffected >= 0 ? count(rowsAffected) : "",
        typeof result["message"] === "string" ? result["message"].slice(0, 500) : "",
      ],
    };
  });
  return rows.toSorted((a, b) => Number(FAILED.includes(b.status)) - Number(FAILED.includes(a.status)));
}
