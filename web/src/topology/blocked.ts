import type { Step } from "../api/model";
import type { RunStore } from "../runstate/store";
import { listOf, type Shape } from "./shape";

/**
 * Tracks which pending steps wait behind a failed one. It costs nothing while no step starts or ceases to be failed.
 */
export class Blocked {
  readonly #shape: Shape;
  readonly #step: Look;
  #failed = new Set<number>();
  #behind: ReadonlySet<number> = new Set();

  constructor(shape: Shape, step: Look) {
    this.#shape = shape;
    this.#step = step;
    this.update(shape.ids);
  }

  has(i: number): boolean {
    return this.#behind.has(i) && this.#status(i) === "PENDING";
  }

  /** The number of pending steps behind step i. */
  count(i: number): number {
    return blocksOf(this.#shape, this.#step, this.#shape.ids[i] ?? "");
  }

  /** Applies changed steps; returns those that became blocked or unblocked. */
  update(changed: Iterable<string>): number[] {
    let moved = false;
    for (const stepId of changed) {
      const i = this.#shape.index.get(stepId);
      if (i === undefined) continue;
      const failed = this.#status(i) === "FAILED";
      if (failed === this.#failed.has(i)) continue;
      moved = true;
      if (failed) this.#failed.add(i);
      else this.#failed.delete(i);
    }
    if (!moved) return [];
    const before = this.#behind;
    const behind = reach(this.#shape, this.#step, this.#failed);
    this.#behind = behind;
    return [...[...before].filter((i) => !behind.has(i)), ...[...behind].filter((i) => !before.has(i))];
  }

  #status(i: number): Step["status"] | undefined {
    return this.#step(this.#shape.ids[i] ?? "")?.status;
  }
}

/** The steps of a run as `Blocked` sees them: in a run that has ended, no step waits for another. */
export function waitingSteps(store: RunStore): Look {
  return (stepId) => (hasEnded(store) ? undefined : store.step(stepId));
}

function hasEnded(store: RunStore): boolean {
  const status = store.header()?.status;
  return status === "COMPLETED" || status === "FAILED" || status === "CANCELLED";
}

type Look = (stepId: string) => Pick<Step, "status"> | undefined;

/** The number of pending steps behind a step, if it failed. */
export function blocksOf(shape: Shape, step: Look, stepId: string): number {
  const i = shape.index.get(stepId);
  return i !== undefined && step(stepId)?.status === "FAILED" ? reach(shape, step, [i]).size : 0;
}

function reach(shape: Shape, step: Look, from: Iterable<number>): Set<number> {
  const reached = new Set<number>();
  const queue = [...from];
  for (let head = 0; head < queue.length; head++) {
    for (const next of listOf(shape.after, queue[head] ?? 0)) {
      if (reached.has(next) || step(shape.ids[next] ?? "")?.status !== "PENDING") continue;
      reached.add(next);
      queue.push(next);
    }
  }
  return reached;
}
