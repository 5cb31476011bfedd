import { expect, it } from "vitest";
import { fromRows, toRows } from "./params";

it("parameters go from rows to JSON and back unchanged", () => {
  const text = fromRows([
    { name: "day", value: "2026-11-22" },
    { name: "count", value: "3" },
    { name: "code", value: '"007"' },
    { name: "deep", value: '{"a":[1]}' },
  ]);
  expect(JSON.parse(text)).toEqual({ day: "2026-11-22", count: 3, code: "007", deep: { a: [1] } });
  expect(fromRows(toRows(text) ?? [])).toBe(text);
  expect(toRows("[1]")).toBeNull();
  expect(toRows("{")).toBeNull();
  expect(toRows(" ")).toEqual([]);
});
