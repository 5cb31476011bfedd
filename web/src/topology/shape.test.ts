import { describe, expect, it } from "vitest";
import type { Step } from "../api/model";
import { Blocked } from "./blocked";
import { focusOf } from "../dag/focus";
import { listOf, shapeOf } from "./shape";

const DIAMOND = shapeOf([
  { stepId: "a", dependsOn: [] },
  { stepId: "b", dependsOn: ["a"] },
  { stepId: "c", dependsOn: ["a", "a", "ghost"] },
  { stepId: "d", dependsOn: ["b", "c"] },
  { stepId: "e", dependsOn: ["a", "d"] },
]);

describe("shapeOf", () => {
  it("lists both ways and layers by the longest way", () => {
    expect([...listOf(DIAMOND.after, 0)]).toEqual([1, 2, 4]);
    expect([...listOf(DIAMOND.before, 3)]).toEqual([1, 2]);
    expect([...DIAMOND.layer]).toEqual([0, 1, 1, 2, 3]);
    expect(DIAMOND.layers).toEqual([[0], [1, 2], [3], [4]]);
  });

  it("holds on to a cycle", () => {
    const { layers } = shapeOf([
      { stepId: "a", dependsOn: ["b"] },
      { stepId: "b", dependsOn: ["a"] },
    ]);
    expect(layers.flat()).toEqual([0, 1]);
  });
});

describe("focusOf", () => {
  it("goes as many hops as asked, ahead and back, and not to siblings", () => {
    expect(focusOf(DIAMOND, 1, 1).steps).toEqual([0, 1, 3]);
    expect(focusOf(DIAMOND, 1, 2).steps).toEqual([0, 1, 3, 4]);
    expect(focusOf(DIAMOND, 3, 9).steps).toEqual([0, 1, 2, 3, 4]);
  });

  it("keeps the nearest when there are too many, and says how many there are", () => {
    const star = shapeOf([
      { stepId: "hub", dependsOn: [] },
      ...Array.from({ length: 400 }, (_, i) => ({ stepId: `s${i}`, dependsOn: ["hub"] })),
    ]);
    const { steps, within } = focusOf(star, 0, 1);
    expect(within).toBe(401);
    expect(steps).toHaveLength(150);
    expect(steps).toContain(0);
  });
});

describe("Blocked", () => {
  it("follows failures, and ends with them", () => {
    const statuses: Record<string, Step["status"]> = {
      a: "SUCCESS",
      b: "PENDING",
      c: "PENDING",
      d: "PENDING",
      e: "PENDING",
    };
    const blocked = new Blocked(DIAMOND, (id) => ({ status: statuses[id] ?? "UNKNOWN" }));
    expect(DIAMOND.ids.some((_, i) => blocked.has(i))).toBe(false);
    statuses["c"] = "FAILED";
    expect(blocked.update(["c"]).toSorted()).toEqual([3, 4]);
    expect([blocked.has(1), blocked.has(3), blocked.has(4)]).toEqual([false, true, true]);
    expect(blocked.count(2)).toBe(2);
    expect(blocked.update(["b"])).toEqual([]);
    statuses["c"] = "RUNNING";
    expect(blocked.update(["c"]).toSorted()).toEqual([3, 4]);
    expect(blocked.has(3)).toBe(false);
    // No step waits behind a skipped one.
    statuses["d"] = "SKIPPED";
    statuses["c"] = "FAILED";
    expect(blocked.update(["c", "d"])).toEqual([]);
    expect(blocked.count(2)).toBe(0);
  });
});
