import { expect, it } from "vitest";
import { manualOf } from "./stepGroup";

const stepCounts = { total: 5, pending: 0, running: 3, success: 2, failed: 0, skipped: 0, stopped: 0, kept: 0 };
const run = { status: "RUNNING", substatus: null, pause: null, stepCounts } as const;

it("counts steps that wait for a person apart from running ones, as far as known", () => {
  expect(manualOf(run)).toBe(0);
  expect(manualOf(run, 1)).toBe(2);
  expect(manualOf({ ...run, substatus: "WAITING_MANUAL" })).toBe(3);
  expect(manualOf({ ...run, status: "PAUSED", substatus: "DRAINING", pause: { draining: 2 } })).toBe(1);
  expect(manualOf({ ...run, status: "PAUSED", pause: { draining: 0 } })).toBe(3);
});
