import { describe, expect, it } from "vitest";
import { layout, type LayoutNode, NODE, separate } from "./layout";

function chain(n: number): LayoutNode[] {
  return Array.from({ length: n }, (_, i) => ({ id: `s${i}`, dependsOn: i === 0 ? [] : [`s${i - 1}`] }));
}

/** The shape of a dbt project: many sources, about 1.3 edges a step, edges mostly to near layers. */
function project(n: number): LayoutNode[] {
  return Array.from({ length: n }, (_, i) => {
    const dependsOn = new Set<string>();
    if (i > n / 5) {
      dependsOn.add(`s${(i * 7919) % i}`);
      if (i % 3 === 0) dependsOn.add(`s${(i * 104729) % i}`);
    }
    return { id: `s${i}`, dependsOn: [...dependsOn] };
  });
}

describe("layout", () => {
  it("puts every step right of all that it waits for", () => {
    for (const steps of [chain(5), project(500)]) {
      const { nodes } = layout(steps);
      expect(nodes.size).toBe(steps.length);
      for (const step of steps) {
        for (const id of step.dependsOn) expect(nodes.get(id)?.layer).toBeLessThan(nodes.get(step.id)?.layer ?? -1);
      }
    }
  });

  it("never lets two steps overlap", () => {
    const { layers, nodes } = layout(project(500));
    for (const layer of layers) {
      const ys = layer.map((id) => nodes.get(id)?.y ?? 0);
      ys.slice(1).forEach((y, i) => expect(y - (ys[i] ?? 0)).toBeGreaterThanOrEqual(NODE.height - 1e-6));
    }
  });

  it("draws a chain as one straight line", () => {
    const { nodes, edges, width } = layout(chain(5));
    expect(new Set([...nodes.values()].map((node) => node.y)).size).toBe(1);
    expect(edges).toHaveLength(4);
    expect(width).toBe(5 * NODE.width + 4 * NODE.gapX);
  });

  it("is the same each time", () => {
    expect(layout(project(200))).toEqual(layout(project(200)));
  });

  it("holds on to a plan with a cycle or an unknown predecessor", () => {
    const steps = [
      { id: "a", dependsOn: ["b", "ghost"] },
      { id: "b", dependsOn: ["a"] },
    ];
    expect(layout(steps).nodes.size).toBe(2);
    expect(layout([]).layers).toEqual([]);
  });

  it("lays out 1,000 steps within 400 ms", () => {
    const steps = project(1000);
    // The best of several: a busy machine says nothing about the layout.
    const took = Array.from({ length: 5 }, () => {
      const begin = performance.now();
      layout(steps);
      return performance.now() - begin;
    });
    expect(Math.min(...took)).toBeLessThan(400);
  });
});

describe("separate", () => {
  it("moves as little as the order and the gap allow", () => {
    expect(separate([0, 0, 100], 10)).toEqual([-5, 5, 100]);
    expect(separate([0, 50, 100], 10)).toEqual([0, 50, 100]);
  });
});
