import { describe, expect, it } from "vitest";
import type { StepGroup } from "../status/stepGroup";
import { cellAt, cellBeside, placeCells, worstFirst } from "./place";

function layersOf(...sizes: number[]): number[][] {
  let next = 0;
  return sizes.map((size) => Array.from({ length: size }, () => next++));
}

/** How much of the width is left on either side. */
function beside(layers: number[][], width: number): { left: number; right: number; pitch: number } {
  const { x, pitch } = placeCells(layers, layers.flat().length, width, 700);
  return { left: Math.min(...x), right: width - Math.max(...x) - pitch, pitch };
}

describe("worstFirst", () => {
  it("puts steps that need a person on top of each layer, and else keeps the order of the plan", () => {
    const group: StepGroup[] = ["ok", "running", "failed", "pending", "waiting", "ok", "failed"];
    expect(
      worstFirst(
        [
          [0, 1, 2, 3],
          [4, 5, 6],
        ],
        (i) => group[i] ?? "ok",
      ),
    ).toEqual([
      [2, 1, 3, 0],
      [6, 4, 5],
    ]);
  });
});

describe("placeCells", () => {
  const shapes = {
    "wide layers": layersOf(...Array<number>(50).fill(100)),
    "one layer": layersOf(5000),
    "a chain": layersOf(...Array<number>(5000).fill(1)),
    few: layersOf(100, 201),
  };
  for (const [name, layers] of Object.entries(shapes)) {
    const count = layers.flat().length;
    it(`gives each step a cell of its own within the width: ${name}`, () => {
      for (const width of [328, 736, 1400, 2500]) {
        const { x, y, pitch } = placeCells(layers, count, width, 500);
        expect(pitch).toBeGreaterThanOrEqual(8);
        expect(pitch).toBeLessThanOrEqual(14);
        expect(Math.max(...x) + pitch).toBeLessThanOrEqual(width);
        expect(new Set(Array.from(x, (left, i) => `${left} ${y[i]}`)).size).toBe(count);
      }
    });
  }

  it("shows 5,000 steps on one screen of 1440 by 900", () => {
    const { height, pitch } = placeCells(shapes["wide layers"], 5000, 1390, 480);
    expect(height).toBeLessThanOrEqual(480);
    expect(pitch).toBeGreaterThanOrEqual(8);
  });

  it("keeps layers in order from left to right", () => {
    const { x } = placeCells(layersOf(30, 30, 30), 90, 1400, 500);
    expect(Math.max(...x.slice(0, 30))).toBeLessThan(Math.min(...x.slice(30, 60)));
    expect(Math.max(...x.slice(30, 60))).toBeLessThan(Math.min(...x.slice(60)));
  });
});

describe("a wide screen", () => {
  it("is filled by many layers, which stand further apart", () => {
    const { left, right } = beside(layersOf(...Array<number>(46).fill(110)), 1856);
    expect(left + right).toBeLessThan(46);
  });

  it("has few layers in its middle, no further apart than they read as one picture", () => {
    const layers = layersOf(...Array<number>(20).fill(20));
    const { x } = placeCells(layers, 400, 1856, 700);
    const { left, right, pitch } = beside(layers, 1856);
    expect(Math.abs(left - right)).toBeLessThanOrEqual(1);
    expect((x[20] ?? 0) - (x[0] ?? 0)).toBeLessThanOrEqual(2.5 * pitch);
  });
});

describe("cells", () => {
  const mosaic = placeCells(layersOf(400, 300), 700, 1400, 300);
  it("are found by a point", () => {
    for (const i of [0, 17, 399, 400, 699])
      expect(cellAt(mosaic, (mosaic.x[i] ?? 0) + 3, (mosaic.y[i] ?? 0) + 3)).toBe(i);
    expect(cellAt(mosaic, -1, 0)).toBeNull();
    expect(cellAt(mosaic, 0, mosaic.height + 1)).toBeNull();
  });

  it("are walked by arrows, to every edge and back", () => {
    expect(cellBeside(mosaic, 0, 0, 1)).toBe(1);
    expect(cellBeside(mosaic, 1, 0, -1)).toBe(0);
    expect(cellBeside(mosaic, 0, 0, -1)).toBeNull();
    expect(cellBeside(mosaic, 0, -1, 0)).toBeNull();
    let at = 0;
    for (let next: number | null = at; next !== null; next = cellBeside(mosaic, at, 1, 0)) at = next;
    expect(at).toBeGreaterThanOrEqual(400);
  });
});
