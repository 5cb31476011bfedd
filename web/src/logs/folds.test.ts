import { expect, it } from "vitest";
import { foldedIndex, foldedRows } from "./folds";

const seen = (total: number, errors: number[]): string =>
  foldedRows(total, errors)
    .map((row) => (row.kind === "line" ? `${row.no}` : `${row.from}-${row.to}`))
    .join(" ");

it("folds the passages between lines that mention an error", () => {
  expect(seen(100, [10, 50])).toBe("1-7 8 9 10 11 12 13-47 48 49 50 51 52 53-100");
  expect(seen(12, [2, 4, 11])).toBe("1 2 3 4 5 6 7-8 9 10 11 12");
  expect(seen(9, [4])).toBe("1 2 3 4 5 6 7-9");
  expect(seen(5, [])).toBe("1-5");
});

it("finds the row of a line", () => {
  const rows = foldedRows(100, [10, 50]);
  expect(rows[foldedIndex(rows, 50)]).toEqual({ kind: "line", no: 50 });
  expect(rows[foldedIndex(rows, 30)]).toEqual({ kind: "fold", from: 13, to: 47 });
  expect(foldedIndex(rows, 999)).toBe(rows.length - 1);
});
