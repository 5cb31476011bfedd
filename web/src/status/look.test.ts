import { expect, it } from "vitest";
import { runLook, stepLook } from "./look";

it("shows the raw word of a status that it does not know", () => {
  expect(runLook({ status: "UNKNOWN", statusRaw: "HIBERNATING", substatus: null, pause: null }).word).toBe(
    'Unknown "HIBERNATING"',
  );
  expect(stepLook({ status: "UNKNOWN", statusRaw: "NAPPING", pendingRetry: false }).word).toBe('Unknown "NAPPING"');
});

it("explains the wait of a paused run", () => {
  const pause = { requestedBy: "ops", reason: null, since: 0, draining: 2 };
  expect(runLook({ status: "PAUSED", statusRaw: "PAUSED", substatus: "DRAINING", pause }).word).toBe(
    "Paused · draining 2",
  );
  expect(runLook({ status: "PAUSED", statusRaw: "PAUSED", substatus: null, pause }).word).toBe("Paused");
});

it("gives each status a silhouette of its own", () => {
  const statuses = ["PENDING", "RUNNING", "SUCCESS", "FAILED", "SKIPPED", "UNKNOWN"] as const;
  const looks = statuses.map((status) => stepLook({ status, statusRaw: status, pendingRetry: false }));
  expect(new Set(looks.map((look) => look.icon)).size).toBe(statuses.length);
  expect(stepLook({ status: "FAILED", statusRaw: "FAILED", pendingRetry: true }).word).toBe("Retry pending");
  const error = { code: "CANCELLED", message: null, retryable: true, category: null, source: null };
  expect(stepLook({ status: "FAILED", statusRaw: "FAILED", pendingRetry: false, error }).word).toBe("Cancelled");
});

it("does not show a step that a rerun kept as work done now", () => {
  const kept = { status: "SUCCESS", statusRaw: "SUCCESS", pendingRetry: false, keptFrom: "c09db14f-1111" } as const;
  expect(stepLook(kept)).toMatchObject({ word: "Kept from c09db14f", tone: "skipped" });
});

it("says that a run waits for approval", () => {
  const run = { status: "PENDING", statusRaw: "PENDING", substatus: null, pause: null } as const;
  expect(runLook({ ...run, waitsForApprovals: { given: 0, required: 2 } }).word).toBe("Waiting for approval");
  expect(runLook({ ...run, waitsForApprovals: null }).word).toBe("Pending");
});
