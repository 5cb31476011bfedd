import { expect, it } from "vitest";
import { paceOf } from "./medians";

const NOW = 1_000_000;

it("says how far a step is from its median, where that can be known", () => {
  const took = (
    status: "SUCCESS" | "FAILED" | "RUNNING" | "SKIPPED" | "PENDING",
    seconds: number,
    median: number | undefined = 60,
  ) =>
    paceOf(
      { status, startedAt: NOW - seconds * 1_000, durationMs: status === "RUNNING" ? null : seconds * 1_000 },
      median === undefined ? undefined : median * 1_000,
      NOW,
    );
  expect(took("SUCCESS", 90)).toEqual({ kind: "slower", byMs: 30_000, times: 1.5 });
  expect(took("SUCCESS", 30)).toEqual({ kind: "faster", byMs: 30_000, times: 0.5 });
  expect(took("SUCCESS", 65)).toEqual({ kind: "usual" });
  // The time of three tries is not that of one.
  expect(paceOf({ status: "FAILED", startedAt: 1, durationMs: 29_000, engineAttemptId: 3 }, 5_000, NOW)).toBeNull();
  expect(paceOf({ status: "SUCCESS", startedAt: 1, durationMs: 900 }, 10, NOW)).toEqual({ kind: "usual" });
  // A running or failed step is never called fast.
  expect([took("RUNNING", 30), took("FAILED", 30), took("RUNNING", 61), took("FAILED", 61)]).toEqual([
    null,
    null,
    null,
    null,
  ]);
  expect([took("RUNNING", 120)?.kind, took("FAILED", 120)?.kind]).toEqual(["slower", "slower"]);
  expect([
    took("SKIPPED", 90),
    took("PENDING", 90),
    paceOf(
      {
        status: "FAILED",
        startedAt: 1,
        durationMs: 90_000,
        error: { code: "CANCELLED", message: null, retryable: true, category: null, source: null },
      },
      10_000,
      NOW,
    ),
    paceOf({ status: "SUCCESS", startedAt: 1, durationMs: 5_000 }, undefined, NOW),
  ]).toEqual([null, null, null, null]);
  expect(paceOf({ status: "SUCCESS", startedAt: 1, durationMs: 5_000 }, 0, NOW)).toMatchObject({
    times: Number.POSITIVE_INFINITY,
  });
});
