import { describe, expect, it } from "vitest";
import { BUCKETS, brushed, spanOf } from "./histogram";

const NOW = Date.parse("2026-11-22T03:00:00Z");
const HOUR = 3_600_000;

describe("the bars of the runs page", () => {
  it("show the last 24 hours, or the span of the query", () => {
    expect(spanOf({}, NOW, "utc")).toEqual({ from: NOW - 24 * HOUR, to: NOW });
    expect(spanOf({ from: "-2h" }, NOW, "utc")).toEqual({ from: NOW - 2 * HOUR, to: NOW });
    expect(spanOf({ from: "-90d" }, NOW, "utc").from).toBe(NOW - 31 * 24 * HOUR);
    expect(spanOf({ from: "-1h", to: "-2h" }, NOW, "utc").to).toBe(NOW - 2 * HOUR);
  });

  it("give the time of a drag in whole bars, either way", () => {
    const span = { from: 0, to: BUCKETS * 10 };
    expect(brushed(span, 0.5, 0.5)).toEqual({ from: 480, to: 490 });
    expect(brushed(span, 0.26, 0.1)).toEqual({ from: 90, to: 250 });
    expect(brushed(span, -1, 2)).toEqual({ from: 0, to: 960 });
  });
});
