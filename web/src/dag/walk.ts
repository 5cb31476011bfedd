import type { Layout } from "./layout";
import { at, listOf, type Shape } from "../topology/shape";

/**
 * The step that an arrow key leads to: along an edge to the nearest one, or to the next in its layer. Null for none,
 * undefined for any other key.
 */
export function walk(shape: Shape, { y, layer }: Layout, from: number, key: string): number | null | undefined {
  const level = (list: Int32Array): number | null =>
    list.reduce<number | null>(
      (best, i) => (best === null || Math.abs(at(y, i) - at(y, from)) < Math.abs(at(y, best) - at(y, from)) ? i : best),
      null,
    );
  const beside = (way: 1 | -1): number | null => {
    const ahead = (shape.layers[at(layer, from)] ?? []).filter((i) => (at(y, i) - at(y, from)) * way > 0);
    return level(Int32Array.from(ahead));
  };
  switch (key) {
    case "ArrowRight":
      return level(listOf(shape.after, from));
    case "ArrowLeft":
      return level(listOf(shape.before, from));
    case "ArrowDown":
      return beside(1);
    case "ArrowUp":
      return beside(-1);
    default:
      return undefined;
  }
}
