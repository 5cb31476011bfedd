import { describe, expect, it } from "vitest";
import type { Step } from "../api/model";
import type { RunStore } from "../runstate/store";
import { awaitedQueue, pollerWords, waitWords } from "./stepWords";

const NOW = Date.parse("2026-11-23T12:00:00Z");

/** A pending step whose last change said that it was ready. */
const waiting = (of: Partial<Step>): Step =>
  ({
    stepId: "load",
    type: "COMMAND",
    status: "PENDING",
    dependsOn: [],
    taskQueue: "tq-data-dev",
    wait: { kind: "WORKER", since: null, until: null, blockingSteps: [], who: null, taskQueue: "tq-data-dev" },
    ...of,
  }) as Step;

/** A run whose other steps have these statuses. */
const runWith = (statuses: Record<string, string>, status = "RUNNING"): RunStore =>
  ({
    step: (id: string) => (statuses[id] ? { status: statuses[id] } : undefined),
    header: () => ({ status }),
  }) as unknown as RunStore;

describe("the wait of a step", () => {
  it("names the queue whose worker a ready step waits for", () => {
    expect(waitWords(waiting({}), runWith({}))).toBe("Waits for a worker of tq-data-dev");
    expect(awaitedQueue(waiting({}), runWith({}))).toBe("tq-data-dev");
  });

  it.each([
    ["a step that needs no worker", waiting({ type: "SLEEP" }), runWith({})],
    ["a step whose predecessor runs again", waiting({ dependsOn: ["stage"] }), runWith({ stage: "RUNNING" })],
    ["a step of a run that was paused since", waiting({}), runWith({}, "PAUSED")],
    ["a step that runs", waiting({ wait: null }), runWith({})],
  ])("awaits no queue: %s", (_, step, run) => {
    expect(awaitedQueue(step, run)).toBeNull();
  });

  it("says when a worker of the queue was last seen", () => {
    expect(pollerWords(NOW - 200_000, NOW)).toBe(", the last one seen 3 min ago");
    expect(pollerWords(null, NOW)).toBe(", none seen within a day");
    expect(pollerWords(NOW - 30 * 3_600_000, NOW)).toBe(", none seen within a day");
  });
});
