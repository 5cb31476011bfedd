import { describe, expect, it } from "vitest";
import { fold, groupOf } from "./fold";
import { shapeOf } from "../topology/shape";

// src -> stg -> int -> stg again -> mart: stg has two stretches.
const SHAPE = shapeOf([
  { stepId: "src_a", dependsOn: [] },
  { stepId: "src_b", dependsOn: [] },
  { stepId: "stg_a", dependsOn: ["src_a"] },
  { stepId: "stg_b", dependsOn: ["src_b", "stg_a"] },
  { stepId: "int_x", dependsOn: ["stg_b"] },
  { stepId: "stg_c", dependsOn: ["int_x"] },
  { stepId: "stg_d", dependsOn: ["int_x", "stg_a"] },
  { stepId: "mart", dependsOn: ["stg_c", "stg_d"] },
]);
const group = (i: number): string => groupOf({ stepId: SHAPE.ids[i] ?? "", group: null });
const none = (): boolean => false;

describe("fold", () => {
  it("makes a bar of each stretch of a group, without a cycle", () => {
    const { shape, bars } = fold(SHAPE, group, none, new Set());
    expect([...bars.values()].map(({ group, members }) => [group, members])).toEqual([
      ["src", ["src_a", "src_b"]],
      ["stg", ["stg_a", "stg_b"]],
      ["stg", ["stg_c", "stg_d"]],
    ]);
    expect(shape.ids).toEqual(["group src 0", "group stg 1", "int_x", "group stg 3", "mart"]);
    expect([...shape.layer]).toEqual([0, 1, 2, 3, 4]);
  });

  it("never hides a failure, nor a group that was opened", () => {
    const failed = fold(SHAPE, group, (i) => SHAPE.ids[i] === "stg_b", new Set());
    expect(failed.shape.ids).toContain("stg_a");
    expect([...failed.bars.keys()]).toEqual(["group src 0", "group stg 4"]);
    const opened = fold(SHAPE, group, none, new Set(["stg", "src"]));
    expect(opened.bars.size).toBe(0);
    expect(opened.shape.ids).toEqual(SHAPE.ids);
  });

  it("folds the other steps of a group in which one failed", () => {
    const many = Array.from({ length: 60 }, (_, i) => ({ stepId: `fct_${i}`, dependsOn: ["src"] }));
    const wide = shapeOf([
      { stepId: "src", dependsOn: [] },
      ...many,
      { stepId: "mart", dependsOn: many.map(({ stepId }) => stepId) },
    ]);
    const { shape, bars } = fold(
      wide,
      (i) => groupOf({ stepId: wide.ids[i] ?? "", group: null }),
      (i) => wide.ids[i] === "fct_7",
      new Set(),
    );
    expect(shape.ids.toSorted()).toEqual(["fct_7", "group fct 1", "mart", "src"]);
    expect(bars.get("group fct 1")?.members).toHaveLength(59);
  });

  it("takes the plan's group before the beginning of the id", () => {
    expect(groupOf({ stepId: "stg_orders", group: "marts" })).toBe("marts");
    expect(groupOf({ stepId: "stg_orders", group: null })).toBe("stg");
    expect(groupOf({ stepId: "load", group: null })).toBe("load");
  });
});
