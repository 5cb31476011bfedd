import { describe, expect, it } from "vitest";
import type { Step } from "../api/model";
import type { RunStore } from "../runstate/store";
import { attempt, header, RUNS, step, store } from "../testing/fixtures";
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
    header: () => ({ status, failedSteps: 0 }),
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

  it("says that nothing new starts, to a step that does not need the failed one", () => {
    const broken = step("load", {
      name: "Load the file",
      status: "FAILED",
      attempts: [attempt({ startedSeq: 3, endedSeq: 5 })],
    });
    const other = waiting({ stepId: "other" });
    const needs = waiting({ stepId: "needs", dependsOn: ["load"], attempts: [] });
    const run = store(header({ failedSteps: 1 }), {}, [broken, { ...other, attempts: [] }, needs]);
    expect(waitWords(other, run)).toBe("Nothing new starts until a person retries or skips Load the file");
    expect(waitWords(needs, run)).toBe("Blocked by a failed step: Load the file");
  });

  it("says that a step of a cancelled run never started", () => {
    const pending = waiting({ attempts: [] });
    const run = store(RUNS["cancelled"] ?? header(), {}, [pending]);
    expect(waitWords(pending, run)).toBe("Never started: the run was cancelled");
  });

  it("says when a worker of the queue was last seen", () => {
    expect(pollerWords(NOW - 200_000, NOW)).toBe(", the last one seen 3 min ago");
    expect(pollerWords(null, NOW)).toBe(", none seen within a day");
    expect(pollerWords(NOW - 30 * 3_600_000, NOW)).toBe(", none seen within a day");
  });
});
