import { expect, it } from "vitest";
import { beginning, nextLine } from "./errors";

it("goes to the next error line, round and round", () => {
  expect([nextLine([3, 9], null), nextLine([3, 9], 3), nextLine([3, 9], 9), nextLine([], 1)]).toEqual([3, 9, 3, null]);
});

it("says how a line begins, without colours", () => {
  expect(beginning("\u001b[31m  ERROR\u001b[0m in model  ")).toBe("ERROR in model");
  expect(beginning("x".repeat(500))).toHaveLength(121);
});
