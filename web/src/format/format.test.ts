import { describe, expect, it } from "vitest";
import { attemptName, bytes, dateTime, duration, plural, preciseTime, relative, shortId, ticking } from "./format";

describe("durations", () => {
  it.each([
    [-5, "< 0.1 s"],
    [412, "0.4 s"],
    [9_999, "9.9 s"],
    [12_000, "12 s"],
    [372_000, "6 m 12 s"],
    [7_500_000, "2 h 05 m"],
    [273_600_000, "3 d 4 h"],
  ])("%d ms is %s", (ms, text) => expect(duration(ms)).toBe(text));

  it("tick in whole seconds and never below zero", () => {
    expect([ticking(-1), ticking(4_999), ticking(61_000)]).toEqual(["0 s", "4 s", "1 m 1 s"]);
  });
});

describe("times", () => {
  const at = Date.parse("2026-11-21T03:12:07.123Z");
  it("are relative within a day only", () => {
    expect(relative(at, at + 1_000)).toBe("just now");
    expect(relative(at, at + 8 * 60_000)).toBe("8 min ago");
    expect(relative(at, at + 5 * 3_600_000)).toBe("5 h ago");
    expect(relative(at, at + 86_400_000)).toBeNull();
    expect(relative(at, at - 60_000)).toBe("just now");
  });
  it("are shown in the chosen zone", () => {
    expect(dateTime(at, "utc")).toBe("2026-11-21 03:12:07");
    expect(preciseTime(at, "utc")).toBe("03:12:07.123");
    const local = new Date(at);
    expect(preciseTime(at, "local").slice(0, 2)).toBe(String(local.getHours()).padStart(2, "0"));
  });
});

it("calls the second logical attempt the first retry (R048)", () => {
  expect([attemptName(0), attemptName(1), attemptName(2), attemptName(3)]).toEqual([
    "First attempt",
    "First attempt",
    "Retry #1",
    "Retry #2",
  ]);
});

it("counts, sizes and shortens", () => {
  expect([plural(1, "step"), plural(1_204, "step")]).toEqual(["1 step", "1,204 steps"]);
  expect([bytes(512), bytes(1_536), bytes(3 * 1024 ** 2)]).toEqual(["512 B", "1.5 KiB", "3.0 MiB"]);
  expect([shortId("7f3a"), shortId("01JDZ7X8Q2M4N6P8R0S2T4V6W8")]).toEqual(["7f3a", "01JDZ7X8"]);
});
