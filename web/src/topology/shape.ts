// The dependencies of a plan's steps, by index: the n-th step of the plan is n.

export interface ShapeStep {
  stepId: string;
  dependsOn: readonly string[];
}

/** A list of numbers for each step: those of step i are `list[start[i]]` to `list[start[i + 1] - 1]`. */
export interface Lists {
  start: Int32Array;
  list: Int32Array;
}

export interface Shape {
  ids: readonly string[];
  index: ReadonlyMap<string, number>;
  /** The predecessors and successors of each step; unknown names are left out. */
  before: Lists;
  after: Lists;
  /** The length of the longest path from a step without predecessors. */
  layer: Int32Array;
  /** Steps by layer, in the order of the plan. */
  layers: readonly (readonly number[])[];
}

export function shapeOf(steps: readonly ShapeStep[]): Shape {
  const index = new Map(steps.map((step, i) => [step.stepId, i]));
  const from: number[] = [];
  const to: number[] = [];
  steps.forEach((step, i) => {
    for (const id of new Set(step.dependsOn)) {
      const source = index.get(id);
      if (source === undefined || source === i) continue;
      from.push(source);
      to.push(i);
    }
  });
  const before = listsOf(steps.length, to, from);
  const after = listsOf(steps.length, from, to);
  const layer = layersOf(before, after);
  const layers: number[][] = [];
  layer.forEach((at, i) => (layers[at] ??= []).push(i));
  return { ids: steps.map((step) => step.stepId), index, before, after, layer, layers };
}

/** The values of each key, in the order given. */
export function listsOf(count: number, keys: ArrayLike<number>, values: ArrayLike<number>): Lists {
  const start = new Int32Array(count + 1);
  for (let i = 0; i < keys.length; i++) start[at(keys, i) + 1] = at(start, at(keys, i) + 1) + 1;
  for (let i = 0; i < count; i++) start[i + 1] = at(start, i + 1) + at(start, i);
  const list = new Int32Array(keys.length);
  const next = start.slice();
  for (let i = 0; i < keys.length; i++) {
    const key = at(keys, i);
    const place = at(next, key);
    list[place] = at(values, i);
    next[key] = place + 1;
  }
  return { start, list };
}

/** The element at an index that must exist. */
export function at(list: ArrayLike<number>, i: number): number {
  return list[i] ?? 0;
}

export function listOf({ start, list }: Lists, i: number): Int32Array {
  return list.subarray(at(start, i), at(start, i + 1));
}

/** Steps in a cycle, which no valid plan has, stay in the layer they have reached. */
function layersOf(before: Lists, after: Lists): Int32Array {
  const count = before.start.length - 1;
  const layer = new Int32Array(count);
  const waiting = Int32Array.from({ length: count }, (_, i) => listOf(before, i).length);
  const ready: number[] = [];
  waiting.forEach((n, i) => n === 0 && ready.push(i));
  for (let head = 0; head < ready.length; head++) {
    const step = at(ready, head);
    for (const next of listOf(after, step)) {
      layer[next] = Math.max(at(layer, next), at(layer, step) + 1);
      waiting[next] = at(waiting, next) - 1;
      if (waiting[next] === 0) ready.push(next);
    }
  }
  return layer;
}
