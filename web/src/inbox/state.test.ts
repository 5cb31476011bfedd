import { describe, expect, it } from "vitest";
import { receive } from "./state";

const quiet = { reset: false, count: 2, changed: [], removed: [] };
const item = { runId: "r1", stepId: null };

describe("the inbox", () => {
  it("counts, and says when the lists must be asked for again", () => {
    const first = receive({ count: null, moved: 0 }, { ...quiet, reset: true });
    expect(first).toEqual({ count: 2, moved: 1 });
    expect(receive(first, quiet)).toBe(first);
    expect(receive(first, { ...quiet, count: 3, changed: [item] })).toEqual({ count: 3, moved: 2 });
    expect(receive(first, { ...quiet, count: 1, removed: [item] })).toEqual({ count: 1, moved: 2 });
  });

  it("keeps the last count while nothing can be read", () => {
    expect(receive({ count: 2, moved: 1 }, { reset: true, count: null, changed: [], removed: [] })).toEqual({
      count: 2,
      moved: 2,
    });
  });
});
