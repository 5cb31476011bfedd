import { expect, it } from "vitest";
import { pictures } from "../messages/pictures";
import { EMPTY_TALLY } from "../status/stepGroup";
import { NO_HOLD } from "../topology/hold";
import { keysOf } from "./Legend";

const { groups } = pictures.mosaic;

it("names each shape of a pending step, because a failure draws two others", () => {
  const hold = { failed: ["f"], held: new Set(["a", "b", "c"]), needs: new Map([["a", "f"]]) };
  const keys = keysOf({ ...EMPTY_TALLY, failed: 1, pending: 5 }, hold);
  expect(keys.filter(({ n }) => n > 0).map(({ name, glyph, n }) => [name, glyph, n])).toEqual([
    [groups.failed, "failed", 1],
    [pictures.grid.held, "held", 3],
    [pictures.grid.blocked, "blocked", 1],
    [groups.pending, "pending", 2],
  ]);
  expect(keysOf({ ...EMPTY_TALLY, failed: 1, pending: 3 }, hold).map(({ glyph }) => glyph)).not.toContain("pending");
  expect(keysOf({ ...EMPTY_TALLY, pending: 5 }, NO_HOLD).find(({ glyph }) => glyph === "pending")?.n).toBe(5);
});
