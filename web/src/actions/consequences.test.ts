import { expect, it } from "vitest";
import { header, NOW, RUNS } from "../testing/fixtures";
import { consequences } from "./consequences";

it("says what a cancellation loses and what stays", () => {
  expect(consequences("CANCEL", header())).toEqual([
    "14 steps will never start. The results of 41 steps stay, and a rerun can use them.",
  ]);
  const counts = { total: 0, pending: 0, running: 0, success: 0, failed: 0, skipped: 0, stopped: 0, kept: 0 };
  expect(consequences("CANCEL", header({ stepCounts: counts }))).toEqual([]);
});

it("says that a pause ends the retry window, and that a resume opens a whole one", () => {
  expect(consequences("PAUSE", header({ retryDeadline: NOW + 400_000 }))).toEqual([
    "A failed step already holds 14 steps: nothing new starts.",
    "The retry window stops while the run is paused. Resuming opens a new one of 10 m 0 s.",
  ]);
  expect(consequences("RESUME", header({ status: "PAUSED" }))).toEqual([
    "A new retry window of 10 m 0 s opens for the failed steps.",
  ]);
  expect(consequences("PAUSE", RUNS["running"] ?? header())).toEqual([]);
  expect(consequences("RESUME", RUNS["paused"] ?? header())).toEqual([]);
});
