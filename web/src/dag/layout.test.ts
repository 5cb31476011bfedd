import { describe, expect, it } from "vitest";
import { type Layout, layout, NODE, separate } from "./layout";
import { walk } from "./walk";
import { at, type ShapeStep, shapeOf } from "../topology/shape";

function chain(n: number): ShapeStep[] {
  return Array.from({ length: n }, (_, i) => ({ stepId: `s${i}`, dependsOn: i === 0 ? [] : [`s${i - 1}`] }));
}

/** The shape of a dbt project: many sources, about 1.3 edges a step, edges mostly to near layers. */
function project(n: number): ShapeStep[] {
  return Array.from({ length: n }, (_, i) => {
    const dependsOn = new Set<string>();
    if (i > n / 5) {
      dependsOn.add(`s${(i * 7919) % i}`);
      if (i % 3 === 0) dependsOn.add(`s${(i * 104729) % i}`);
    }
    return { stepId: `s${i}`, dependsOn: [...dependsOn] };
  });
}

function drawn(steps: ShapeStep[]): Layout {
  return layout(shapeOf(steps));
}

describe("layout", () => {
  it("puts every step right of all that it waits for", () => {
    for (const steps of [chain(5), project(500)]) {
      const { layer, from, to, x } = drawn(steps);
      expect(layer).toHaveLength(steps.length);
      from.forEach((source, e) => expect(at(x, source) + NODE.width).toBeLessThan(at(x, at(to, e))));
    }
  });

  it("never lets two steps overlap, nor an edge run through a step", () => {
    const { layer, x, y, from, to, bend, bends } = drawn(project(500));
    const columns = new Map<number, number[]>();
    layer.forEach((l, i) => columns.set(l, [...(columns.get(l) ?? []), at(y, i)]));
    for (const ys of columns.values()) {
      ys.sort((a, b) => a - b);
      ys.slice(1).forEach((top, i) => expect(top - at(ys, i)).toBeGreaterThanOrEqual(NODE.height - 0.01));
    }
    from.forEach((source, e) => {
      for (let k = at(bend, e); k < at(bend, e + 1); k++) {
        const column = columns.get(at(layer, source) + 1 + k - at(bend, e)) ?? [];
        for (const top of column)
          expect(at(bends, k) < top + 0.01 || at(bends, k) > top + NODE.height - 0.01).toBe(true);
      }
      expect(at(bend, e + 1) - at(bend, e)).toBe(at(layer, at(to, e)) - at(layer, source) - 1);
    });
    expect(Math.min(...x)).toBe(0);
  });

  it("draws a chain as one straight line", () => {
    const { y, from, width } = drawn(chain(5));
    expect(new Set(y).size).toBe(1);
    expect(from).toHaveLength(4);
    expect(width).toBe(5 * NODE.width + 4 * NODE.gapX);
  });

  it("is the same each time", () => {
    expect(drawn(project(200))).toEqual(drawn(project(200)));
  });

  it("holds on to a plan with a cycle or an unknown predecessor", () => {
    const steps = [
      { stepId: "a", dependsOn: ["b", "ghost"] },
      { stepId: "b", dependsOn: ["a"] },
    ];
    expect(drawn(steps).layer).toHaveLength(2);
    expect(drawn([])).toMatchObject({ width: 0, height: 0 });
  });

  it("18 lays out 5,000 steps in about five times what 1,000 take", () => {
    const [small, large] = [shapeOf(project(1_000)), shapeOf(project(5_000))];
    // The time that this process had a processor, the best of several, by turns: a busy machine says nothing about the
    // layout.
    const timed = (shape: typeof small): number => {
      const begun = process.cpuUsage();
      layout(shape);
      return process.cpuUsage(begun).user / 1_000;
    };
    let [one, five] = [Infinity, Infinity];
    for (let turn = 0; turn < 8; turn++) {
      one = Math.min(one, timed(small));
      five = Math.min(five, timed(large));
    }
    console.log(`18 layout: 1,000 steps ${one.toFixed(0)} ms, 5,000 steps ${five.toFixed(0)} ms`);
    // Quadratic would be 25.
    expect(five / one).toBeLessThan(15);
  });
});

describe("walk", () => {
  it("follows edges to the nearest, and goes up and down within a layer", () => {
    const shape = shapeOf([
      { stepId: "a", dependsOn: [] },
      { stepId: "b", dependsOn: ["a"] },
      { stepId: "c", dependsOn: ["a"] },
      { stepId: "d", dependsOn: ["c"] },
    ]);
    const drawing = layout(shape);
    const [upper, lower] = at(drawing.y, 1) < at(drawing.y, 2) ? [1, 2] : [2, 1];
    expect(walk(shape, drawing, 3, "ArrowLeft")).toBe(2);
    expect(walk(shape, drawing, 3, "ArrowRight")).toBeNull();
    expect([1, 2]).toContain(walk(shape, drawing, 0, "ArrowRight"));
    expect(walk(shape, drawing, upper, "ArrowDown")).toBe(lower);
    expect(walk(shape, drawing, upper, "ArrowUp")).toBeNull();
    expect(walk(shape, drawing, 0, "q")).toBeUndefined();
  });
});

describe("separate", () => {
  it("moves as little as the order and the gap allow", () => {
    expect(separate([0, 0, 100], 10)).toEqual([-5, 5, 100]);
    expect(separate([0, 50, 100], 10)).toEqual([0, 50, 100]);
  });
});
