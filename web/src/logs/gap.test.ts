import { expect, it } from "vitest";
import { lineOf, rowOf, rowsOf } from "./gap";

it("a log without its middle has a row for each line that is there, and one for those that are not", () => {
  const gap = { from: 4, to: 9 };
  expect(rowsOf(12, gap)).toBe(7);
  const lines = [1, 2, 3, 9, 10, 11, 12];
  expect(Array.from({ length: 7 }, (_, row) => lineOf(row, gap))).toEqual(lines);
  expect(lines.map((line) => rowOf(line, gap))).toEqual([0, 1, 2, 3, 4, 5, 6]);
  expect([rowOf(4, gap), rowOf(8, gap)]).toEqual([3, 3]);
});

it("a whole log has a row for each number", () => {
  expect([rowsOf(12, null), lineOf(0, null), rowOf(12, null)]).toEqual([12, 1, 11]);
});
