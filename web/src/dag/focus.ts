import { listOf, type Shape } from "../topology/shape";

const FOCUS_NODES = 150;

export interface Focus {
  /** The steps shown, in the order of the plan. */
  steps: readonly number[];
  /** The number of steps within reach; more than are shown when there are too many. */
  within: number;
}

/**
 * The steps within `hops` edges upstream or downstream of a step, without changes of direction. When there are more
 * than can be labelled, the nearest ones.
 */
export function focusOf(shape: Shape, center: number, hops: number, most = FOCUS_NODES): Focus {
  const found = new Set([center]);
  const walk = (lists: Shape["before"]): number[][] => {
    const rings: number[][] = [];
    const seen = new Set([center]);
    let ring = [center];
    for (let hop = 0; hop < hops; hop++) {
      ring = ring.flatMap((step) => [...listOf(lists, step)]).filter((step) => !seen.has(step) && seen.add(step));
      rings.push(ring);
    }
    return rings;
  };
  const before = walk(shape.before);
  const after = walk(shape.after);
  for (let hop = 0; hop < hops; hop++)
    for (const step of [...(before[hop] ?? []), ...(after[hop] ?? [])]) found.add(step);
  const nearest = [...found].slice(0, most);
  return { steps: nearest.toSorted((a, b) => a - b), within: found.size };
}
