import { expect, it } from "vitest";
import { manifestRows, resultRows } from "./dbtRows";
import { expiryWords } from "./expiry";
import { MOST_ROWS, rowsOf, sampleForm } from "./rows";

it("reads values separated by commas, semicolons and tabs, with quotes and line breaks in cells", () => {
  expect(rowsOf("csv", 'a,b\r\n1,"x, ""y""\nz"\r\n2,\r\n', true)).toEqual({
    heads: ["a", "b"],
    rows: [
      ["1", 'x, "y"\nz'],
      ["2", ""],
    ],
    cut: false,
  });
  expect(rowsOf("csv", "a;b\n1;2", true)?.rows).toEqual([["1", "2"]]);
  expect(rowsOf("csv", "a\tb\n1\t2\n", true)?.rows).toEqual([["1", "2"]]);
  expect(rowsOf("csv", "", true)).toBeNull();
});

it("leaves out the last row of a file that was cut, and rows and columns above the limits", () => {
  expect(rowsOf("csv", "a,b\n1,2\n3,4", false)).toEqual({ heads: ["a", "b"], rows: [["1", "2"]], cut: true });
  expect(rowsOf("csv", 'a\n1\n"an open quote', false)?.rows).toEqual([["1"]]);
  const many = rowsOf("csv", `a\n${"1\n".repeat(5_000)}`, true);
  expect([many?.rows.length, many?.cut]).toEqual([MOST_ROWS, true]);
  const wide = rowsOf("csv", `${"a,".repeat(5_000)}\n${"1,".repeat(5_000)}`, true);
  expect([wide?.heads.length, wide?.cut]).toEqual([100, true]);
  expect(rowsOf("csv", `a\n${"x".repeat(9_000)}`, true)?.rows[0]?.[0]?.length).toBe(501);
});

it("reads a row from each line or element of JSON, also with other keys", () => {
  expect(rowsOf("ndjson", '{"a":1}\n{"b":{"c":2}}\n3\n', true)).toEqual({
    heads: ["a", "b", "value"],
    rows: [
      ["1", "", ""],
      ["", '{"c":2}', ""],
      ["", "", "3"],
    ],
    cut: false,
  });
  expect(rowsOf("ndjson", '{"a":1}\n{"a":', false)).toEqual({ heads: ["a"], rows: [["1"]], cut: true });
  expect(rowsOf("json", '[{"__proto__":1,"a":2}]', true)?.heads).toEqual(["__proto__", "a"]);
  expect(rowsOf("json", '{"a":1}', true)).toBeNull();
  expect(rowsOf("json", "<html>", true)).toBeNull();
});

it("knows the form of a sample by its name", () => {
  expect(["a.CSV", "a.tsv", "a.ndjson", "a.jsonl", "a.json", "a.html", "a"].map(sampleForm)).toEqual([
    "csv",
    "csv",
    "ndjson",
    "ndjson",
    "json",
    null,
    null,
  ]);
});

it("lists the nodes of a manifest by name, and results with failed ones first", () => {
  const manifest = {
    nodes: {
      "model.shop.b": { config: { materialized: "table" }, depends_on: { nodes: ["model.shop.a"] } },
      "model.shop.a": { original_file_path: "models/a.sql" },
    },
  };
  expect(manifestRows(manifest).map(({ cells }) => cells)).toEqual([
    ["a", "model", "", "0", "1", "0", "models/a.sql"],
    ["b", "model", "table", "1", "0", "0", ""],
  ]);
  const results = {
    results: [
      { unique_id: "model.shop.a", status: "success", execution_time: 1.5, adapter_response: { rows_affected: 12 } },
      { unique_id: "model.shop.b", status: "error", message: "no such column" },
      "hostile",
      { unique_id: 7, status: null, execution_time: -1, adapter_response: "x" },
    ],
  };
  expect(resultRows(results).map(({ cells }) => cells[0])).toEqual(["b", "a", ""]);
  expect(resultRows(results)[1]?.cells.slice(2, 4)).toEqual(["1.5 s", "12"]);
  expect(resultRows("text")).toEqual([]);
});

it("says until when a file is kept", () => {
  const now = Date.parse("2026-11-28T12:00:00Z");
  expect(expiryWords(null, now, "utc")).toBe("no end is set");
  expect(expiryWords("2026-12-11T11:00:00Z", now, "utc")).toBe("expires in 12 days");
  expect(expiryWords("2026-11-28T13:00:00Z", now, "utc")).toMatch(/^expires in 1 h/);
  expect(expiryWords("2026-11-20T10:00:00Z", now, "utc")).toMatch(/^expired on .*20/);
});
