// Places the cells of the mosaic: a band of columns for each layer, and bands wrapped like words.
import { STEP_GROUPS, type StepGroup } from "../status/stepGroup";

export const PITCH = { min: 8, max: 14 };
/** The widest gap between two layers, in widths of a cell. */
const MOST_AIR = 1;

export interface Mosaic {
  pitch: number;
  width: number;
  height: number;
  /** Left and top of each cell, by the index of its step. */
  x: Float32Array;
  y: Float32Array;
}

/** Sorts each layer: steps that need a person first, then the order of the plan. */
export function worstFirst(layers: readonly (readonly number[])[], group: (step: number) => StepGroup): number[][] {
  const rank = (step: number): number => STEP_GROUPS.indexOf(group(step));
  return layers.map((layer) =>
    layer
      .map((step) => ({ step, rank: rank(step) }))
      .toSorted((a, b) => a.rank - b.rank || a.step - b.step)
      .map(({ step }) => step),
  );
}

/**
 * Places the cells with the largest pitch that fits into width and height; with the smallest pitch the mosaic may be
 * higher. The remaining width goes between the layers, up to the widest gap, then beside them.
 */
export function placeCells(
  layers: readonly (readonly number[])[],
  count: number,
  width: number,
  height: number,
): Mosaic {
  for (let pitch = PITCH.max; ; pitch--) {
    const gap = Math.floor(pitch / 2);
    const placed = place(layers, count, width, height, pitch, gap);
    if (placed.height > height && pitch > PITCH.min) continue;
    const air = Math.min(MOST_AIR * pitch, Math.floor((width - placed.right) / Math.max(1, placed.bands - 1)));
    const { x, y, right, height: high } = air > 0 ? place(layers, count, width, height, pitch, gap + air) : placed;
    const beside = Math.max(0, Math.floor((width - right) / 2));
    return { pitch, width: right + 2 * beside, height: high, x: x.map((left) => left + beside), y };
  }
}

interface Placed {
  x: Float32Array;
  y: Float32Array;
  height: number;
  /** The end of the widest line, and the largest number of bands in a line. */
  right: number;
  bands: number;
}

function place(
  layers: readonly (readonly number[])[],
  count: number,
  width: number,
  height: number,
  pitch: number,
  gap: number,
): Placed {
  const across = Math.max(1, Math.floor(width / pitch));
  const widest = layers.reduce((most, layer) => Math.max(most, layer.length), 1);
  // No band is wider than a line.
  const rows = Math.max(1, Math.floor(height / pitch), Math.ceil(widest / across));
  const x = new Float32Array(count);
  const y = new Float32Array(count);
  let [left, top, line, right, inLine, bands] = [0, 0, 0, 0, 0, 0];
  for (const layer of layers) {
    const columns = Math.max(1, Math.ceil(layer.length / rows));
    if (left > 0 && left + columns * pitch > width) {
      top += line * pitch + Math.floor(pitch / 2);
      [left, line, inLine] = [0, 0, 0];
    }
    const high = Math.ceil(layer.length / columns);
    layer.forEach((step, i) => {
      x[step] = left + Math.floor(i / high) * pitch;
      y[step] = top + (i % high) * pitch;
    });
    line = Math.max(line, high);
    right = Math.max(right, left + columns * pitch);
    bands = Math.max(bands, ++inLine);
    left += columns * pitch + gap;
  }
  return { x, y, height: top + line * pitch, right, bands };
}

/** The step whose cell covers a point, or null. */
export function cellAt({ x, y, pitch }: Mosaic, left: number, top: number): number | null {
  for (let i = 0; i < x.length; i++) {
    const dx = left - (x[i] ?? 0);
    const dy = top - (y[i] ?? 0);
    if (dx >= 0 && dx < pitch && dy >= 0 && dy < pitch) return i;
  }
  return null;
}

/** The nearest cell in a direction, straight ahead first; null at the edge. */
export function cellBeside({ x, y }: Mosaic, from: number, dx: -1 | 0 | 1, dy: -1 | 0 | 1): number | null {
  let best: number | null = null;
  let least = Number.POSITIVE_INFINITY;
  for (let i = 0; i < x.length; i++) {
    const across = (x[i] ?? 0) - (x[from] ?? 0);
    const down = (y[i] ?? 0) - (y[from] ?? 0);
    const ahead = across * dx + down * dy;
    if (ahead <= 0) continue;
    const distance = ahead + 3 * Math.abs(dx === 0 ? across : down);
    if (distance < least) {
      least = distance;
      best = i;
    }
  }
  return best;
}
