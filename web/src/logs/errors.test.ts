import { expect, it } from "vitest";
import { beginning, beginnings, linesDocument, nextLine } from "./errors";

it("goes to the next error line, round and round", () => {
  expect([nextLine([3, 9], null), nextLine([3, 9], 3), nextLine([3, 9], 9), nextLine([], 1)]).toEqual([3, 9, 3, null]);
});

it("says how a line begins, without colours", () => {
  expect(beginning("\u001b[31m  ERROR\u001b[0m in model  ")).toBe("ERROR in model");
  expect(beginning("x".repeat(500))).toHaveLength(121);
});

it("asks for lines that lie apart at once, and knows them by their numbers", () => {
  const asked = String(linesDocument(2));
  expect(asked).toContain("$l0: Int!, $l1: Int!)");
  expect(asked.match(/stepLog\(/g)).toHaveLength(2);
  const found = { l0: { lines: [{ no: 7, text: "ERROR one" }] }, l1: { lines: [] }, l2: null };
  expect([...beginnings(found)]).toEqual([[7, "ERROR one"]]);
});
