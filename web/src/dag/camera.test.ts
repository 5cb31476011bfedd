import { NODE } from "./layout";
import { describe, expect, it } from "vitest";
import { centred, clipped, covers, fitting, held, legible, sight, ZOOM, zoomed } from "./camera";

const BOX = { width: 1_000, height: 500 };

describe("the camera", () => {
  it("opens the whole of a drawing whose names can be read, as the six layers of the sample in 1,280 px", () => {
    const sample = { width: 6 * NODE.width + 5 * NODE.gapX, height: 220 };
    const whole = fitting(sample, { width: 1_223, height: 400 });
    expect(legible(whole)).toBe(whole);
    expect(legible(0.62)).toBe(0.75);
  });

  it("fits a large drawing, and never magnifies a small one", () => {
    expect(fitting({ width: 9_680, height: 100 }, BOX)).toBeCloseTo(0.1);
    expect(fitting({ width: 100, height: 50 }, BOX)).toBe(1);
    expect(fitting({ width: 1e9, height: 50 }, BOX)).toBe(ZOOM.min);
  });

  it("keeps the point under the pointer where it is while it zooms", () => {
    const before = { x: -200, y: 40, scale: 0.5 };
    const after = zoomed(before, 1.7, 300, 200);
    expect((300 - after.x) / after.scale).toBeCloseTo((300 - before.x) / before.scale);
    expect((200 - after.y) / after.scale).toBeCloseTo((200 - before.y) / before.scale);
    expect(zoomed(before, 1e9, 0, 0).scale).toBe(ZOOM.max);
  });

  it("never loses the drawing out of the pane", () => {
    const world = { width: 4_000, height: 200 };
    expect(held({ x: 9e9, y: 9e9, scale: 1 }, world, BOX)).toEqual({ x: 16, y: 150, scale: 1 });
    expect(held({ x: -9e9, y: 0, scale: 1 }, world, BOX)).toEqual({ x: -3_016, y: 150, scale: 1 });
  });

  it("shows the point that it is centred on", () => {
    const world = { width: 4_000, height: 3_000 };
    const camera = centred(2_000, 1_500, 0.8, BOX);
    const seen = sight(camera, BOX);
    expect([(seen.left + seen.right) / 2, (seen.top + seen.bottom) / 2]).toEqual([2_000, 1_500]);
    const ahead = clipped(sight(camera, BOX, 320), world);
    expect(covers(ahead, seen)).toBe(true);
    expect(covers(ahead, sight({ ...camera, x: camera.x + 300 }, BOX))).toBe(true);
    expect(covers(ahead, sight({ ...camera, x: camera.x + 400 }, BOX))).toBe(false);
  });
});
