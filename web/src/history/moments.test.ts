import { expect, it } from "vitest";
import { nextStop } from "./moments";

const moments = [
  { runSeq: 2, at: 1_000 },
  { runSeq: 3, at: 1_150 },
  { runSeq: 5, at: 2_000 },
  { runSeq: 6, at: 90_000 },
];

it("joins moments within one tick, and waits as long as they took", () => {
  expect(nextStop(moments, 0, 1)).toEqual({ stop: moments[1], waitMs: 1_150 });
  expect(nextStop(moments, 0, 10)).toEqual({ stop: moments[2], waitMs: 200 });
});

it("does not sit through quiet hours, and ends at the end", () => {
  expect(nextStop(moments.slice(3), 2_000, 1)).toEqual({ stop: moments[3], waitMs: 2_000 });
  expect(nextStop([], 0, 1)).toBeNull();
});
