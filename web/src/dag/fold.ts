// Groups of steps, collapsed to one node each.
import { at, listOf, type Shape, type ShapeStep, shapeOf } from "../topology/shape";

export interface Bar {
  /** The id of the graph's node; no step has such an id. */
  id: string;
  group: string;
  /** The steps of the group. */
  members: readonly string[];
}

export interface Folded {
  shape: Shape;
  bars: ReadonlyMap<string, Bar>;
}

/** The group of a step in the plan, else the prefix of its id. */
export function groupOf(step: { stepId: string; group: string | null }): string {
  return step.group ?? /^[^._\-/:]+/.exec(step.stepId)?.[0] ?? step.stepId;
}

/**
 * Collapses each group except those in `open`. A failed step stays in sight beside the bar of its group. A group with
 * other steps in between becomes several bars, one for each stretch, so that the drawing has no cycle.
 */
export function fold(
  shape: Shape,
  groupIn: (step: number) => string,
  failed: (step: number) => boolean,
  open: ReadonlySet<string>,
): Folded {
  // A failed step is a group of its own.
  const group = (step: number): string => (failed(step) ? `${groupIn(step)} failed ${step}` : groupIn(step));
  const stretch = new Int32Array(shape.ids.length);
  for (const step of shape.layers.flat()) {
    for (const before of listOf(shape.before, step)) {
      stretch[step] = Math.max(at(stretch, step), at(stretch, before) + (group(before) === group(step) ? 0 : 1));
    }
  }
  const parts = new Map<string, number[]>();
  shape.ids.forEach((_, step) => {
    const key = `${group(step)} ${at(stretch, step)}`;
    parts.set(key, [...(parts.get(key) ?? []), step]);
  });
  const nodeOf = shape.ids.slice();
  const bars = new Map<string, Bar>();
  for (const [key, members] of parts) {
    const name = group(members[0] ?? 0);
    if (members.length < 2 || open.has(name)) continue;
    const id = `group ${key}`;
    bars.set(id, { id, group: name, members: members.map((step) => shape.ids[step] ?? "") });
    for (const step of members) nodeOf[step] = id;
  }
  const nodes = new Map<string, Set<string>>();
  shape.ids.forEach((_, step) => {
    const node = nodeOf[step] ?? "";
    const dependsOn = nodes.get(node) ?? new Set();
    nodes.set(node, dependsOn);
    for (const before of listOf(shape.before, step)) if (nodeOf[before] !== node) dependsOn.add(nodeOf[before] ?? "");
  });
  const steps = [...nodes].map(([stepId, dependsOn]): ShapeStep => ({ stepId, dependsOn: [...dependsOn] }));
  return { shape: shapeOf(steps), bars };
}
