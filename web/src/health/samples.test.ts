import { describe, expect, it } from "vitest";
import { CHARTS, columns, milliseconds, type Sample, toHistory, told, unwell, written } from "./samples";

const AT = Date.UTC(2026, 10, 21, 3, 12, 0);

function sample(i: number, over: Partial<Sample> = {}): Sample {
  return {
    at: AT + i * 15_000,
    status: "HEALTHY",
    lagP50Ms: 2,
    lagP99Ms: 40,
    framesPerSecond: 12.5,
    viewers: 40,
    streams: 3,
    staleStreams: 0,
    stateStoreMs: 0.9,
    temporalMs: 4,
    ...over,
  };
}

describe("the words of a chart", () => {
  it("names the present value, and the highest with its time", () => {
    expect(told("lagP99Ms", [sample(0, { lagP99Ms: 1_250 }), sample(1)], "utc")).toBe(
      "40 ms now, peak 1.2 s at 03:12:00",
    );
    expect(told("viewers", [sample(0), sample(1, { viewers: 12_000 })], "utc")).toBe(
      "12,000 now, peak 12,000 at 03:12:15",
    );
  });

  it("names the newest of several that were as much", () => {
    expect(told("lagP50Ms", [sample(0), sample(1), sample(2)], "utc")).toContain("at 03:12:30");
  });

  it("tells an interval without a frame from one without lag", () => {
    expect(told("lagP50Ms", [sample(0), sample(1, { lagP50Ms: null })], "utc")).toBe(
      "no change now, peak 2.0 ms at 03:12:00",
    );
    expect(told("lagP50Ms", [sample(0, { lagP50Ms: null })], "utc")).toBe("no changes in this period");
    expect(told("staleStreams", [sample(0)], "utc")).toBe("0 now");
    expect(told("stateStoreMs", [sample(0, { stateStoreMs: null })], "utc")).toBe("it did not answer");
    expect(told("stateStoreMs", [sample(0), sample(1, { stateStoreMs: null })], "utc")).toBe(
      "no answer now, peak 0.9 ms at 03:12:00",
    );
    expect(told("viewers", [], "utc")).toBe("none");
  });

  it("writes times of milliseconds as they are, also below 0.1 s", () => {
    expect([0.04, 0.42, 9.96, 42.4, 999.4, 1_300].map(milliseconds)).toEqual([
      "0.0 ms",
      "0.4 ms",
      "10.0 ms",
      "42 ms",
      "999 ms",
      "1.3 s",
    ]);
    expect(written("framesPerSecond", 1_234.5)).toBe("1,235");
    expect(written("framesPerSecond", 0.5)).toBe("0.5");
  });

  it("counts the samples that were not healthy", () => {
    expect(unwell([sample(0), sample(1)])).toBeNull();
    expect(unwell([sample(0, { status: "UNHEALTHY" }), sample(1, { status: "DEGRADED" }), sample(2)])).toEqual({
      times: 2,
      last: sample(1, { status: "DEGRADED" }),
    });
  });
});

describe("the columns of a chart", () => {
  it("is a column of times and one for each line", () => {
    expect(columns([sample(0), sample(1, { lagP50Ms: null })], CHARTS.lag, 15_000)).toEqual([
      [AT, AT + 15_000],
      [2, null],
      [40, 40],
    ]);
    expect(columns([], CHARTS.frames, 15_000)).toEqual([[], []]);
  });

  it("has a gap where no samples were taken", () => {
    expect(columns([sample(0), sample(10)], CHARTS.frames, 15_000)).toEqual([
      [AT, AT + 15_000, AT + 150_000],
      [12.5, null, 12.5],
    ]);
  });

  it("keeps the order of the wire, with times as numbers", () => {
    const wire = {
      server: "host/7",
      since: "2026-11-21T02:00:00Z",
      intervalMs: 15_000,
      samples: [{ ...sample(0), at: "2026-11-21T03:12:00Z" }],
    };
    expect(toHistory(wire)).toEqual({
      server: "host/7",
      since: Date.UTC(2026, 10, 21, 2),
      intervalMs: 15_000,
      samples: [sample(0)],
    });
  });
});
