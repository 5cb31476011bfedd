import { expect, test } from "vitest";
import { clockTime, dateTime } from "../format/format";
import { type End, endWords } from "./forecast";

const at = (time: string): number => Date.parse(`2026-11-20T${time}Z`);
const utc = (moment: number): string => clockTime(moment, "utc");
const day = (moment: number): string => dateTime(moment, "utc").slice(0, 10);
const NONE: End = { forecast: null, gap: null, deadline: null };
const forecast = (low: string, expected: string, high: string): End["forecast"] => ({
  low: at(low),
  expected: at(expected),
  high: at(high),
  runs: 12,
  similar: false,
});
const words = (end: Partial<End>, now: string, over: (() => boolean) | null = null): string =>
  endWords({ ...NONE, ...end }, at(now), over, utc, day).text;

test("says when a run ends and until when it should", () => {
  const end = { forecast: forecast("05:47:00", "05:52:00", "06:01:00"), deadline: at("06:00:00") };
  expect(words(end, "05:20:00")).toBe("ends about 05:52 (05:47–06:01), due 06:00");
});

test("has seconds where they matter, and never begins in the past", () => {
  const end = { forecast: forecast("03:31:10", "03:31:20", "03:31:50") };
  expect(words(end, "03:31:00")).toBe("ends about 03:31:20 (03:31:10–03:31:50)");
  expect(words(end, "03:31:30")).toBe("ends about 03:31:30 (by 03:31:50)");
  expect(words(end, "03:31:51")).toBe("slower than most of the last 12 runs");
});

test("says that a run is late, will probably be, or was", () => {
  const end = { forecast: forecast("06:10:00", "06:12:00", "06:31:00"), deadline: at("06:00:00") };
  expect(words(end, "05:20:00")).toBe("ends about 06:12 (06:10–06:31), due 06:00, will probably be late");
  expect(endWords({ ...NONE, ...end }, at("06:01:00"), null, utc, day)).toMatchObject({ late: true });
  expect(words({ deadline: at("06:00:00") }, "07:00:00", () => false)).toBe("due 06:00, missed its deadline");
  expect(words({ deadline: at("06:00:00") }, "07:00:00", () => true)).toBe("due 06:00, in time");
});

test("says first that a run is late, and the day of a deadline that is not today", () => {
  const gap = { reason: "TOO_FEW_RUNS", stepId: "", runs: 0, needed: 5 };
  expect(words({ gap, deadline: at("06:00:00") }, "06:10:00")).toBe("late: due 06:00, no forecast yet: 0 of 5 runs");
  const tomorrow = Date.parse("2026-11-21T05:00:00Z");
  expect(words({ deadline: tomorrow }, "12:19:00")).toBe("due 2026-11-21 05:00");
});

test("says why it knows no end", () => {
  const gap = { reason: "TOO_FEW_RUNS", stepId: "", runs: 3, needed: 5 };
  expect(words({ gap }, "05:00:00")).toBe("no forecast yet: 3 of 5 runs");
  expect(words({ gap: { ...gap, reason: "WAITS_FOR_PERSON", stepId: "check" } }, "05:00:00")).toBe(
    "no forecast: check waits for a person",
  );
  expect(words({ gap: { ...gap, reason: "PAUSED" } }, "05:00:00")).toBe("");
});
