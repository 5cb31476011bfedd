import { describe, expect, it } from "vitest";
import type { Attempt, Step } from "../api/model";
import { fits } from "./Axis";
import {
  besideBar,
  breaksOf,
  hasRoom,
  percent,
  scaleOf,
  spanOf,
  spanText,
  ticks,
  timeAt,
  waitingSpan,
  wholeSpan,
  within,
  zoomedSpan,
} from "./axis";
import {
  awaitedPerson,
  criticalPath,
  goesOn,
  labelOf,
  pathLength,
  pauseBands,
  readyAt,
  segmentsOf,
  worked,
  worksNow,
} from "./segments";

function attempt(
  logicalAttemptId: number,
  startedAt: number | null,
  completedAt: number | null,
  status: Attempt["status"] = completedAt === null ? "RUNNING" : "SUCCESS",
): Attempt {
  return {
    logicalAttemptId,
    engineAttemptId: 1,
    status,
    statusRaw: status,
    startedAt,
    completedAt,
    durationMs: null,
    lastTryMs: null,
    startedSeq: null,
    endedSeq: null,
    error: null,
    skip: null,
  };
}
function step(stepId: string, over: Partial<Step>): Step {
  // Only the fields that segments read.
  return {
    stepId,
    type: "SLEEP",
    dependsOn: [],
    status: "PENDING",
    statusRaw: "PENDING",
    substatus: null,
    pendingRetry: false,
    startedAt: null,
    completedAt: null,
    attempts: [],
    ...over,
  } as Step;
}

describe("segmentsOf", () => {
  it("shows the wait, each attempt, and that a person retried between them", () => {
    const retried = step("a", { status: "RUNNING", attempts: [attempt(1, 100, 200, "FAILED"), attempt(2, 260, null)] });
    expect(segmentsOf(retried, 40)).toEqual([
      { kind: "waiting", tone: "pending", from: 40, to: 100, logicalAttemptId: 0 },
      { kind: "running", tone: "failed", from: 100, to: 200, logicalAttemptId: 1 },
      { kind: "person", tone: "person", from: 200, to: 260, logicalAttemptId: 1 },
      { kind: "running", tone: "running", from: 260, to: null, logicalAttemptId: 2 },
    ]);
    expect(worked(retried, 300)).toBe(140);
  });

  it("shows a step that waits, for a worker, a retry or a person, as going on", () => {
    expect(segmentsOf(step("a", {}), 40)).toEqual([
      { kind: "waiting", tone: "pending", from: 40, to: null, logicalAttemptId: 0 },
    ]);
    expect(segmentsOf(step("a", {}), null)).toEqual([]);
    const latched = step("a", { status: "FAILED", pendingRetry: true, attempts: [attempt(1, 0, 10, "FAILED")] });
    expect(segmentsOf(latched, 0).at(-1)).toEqual({
      kind: "backoff",
      tone: "pending",
      from: 10,
      to: null,
      logicalAttemptId: 1,
    });
    const manual = step("a", { status: "RUNNING", substatus: "WAITING_MANUAL", attempts: [attempt(1, 5, null)] });
    expect(segmentsOf(manual, 5)).toEqual([{ kind: "person", tone: "person", from: 5, to: null, logicalAttemptId: 1 }]);
  });

  it("shows that a failed step waits for a person only while the run does", () => {
    const failed = step("a", { status: "FAILED", attempts: [attempt(1, 0, 10, "FAILED")] });
    expect(segmentsOf(failed, 0).at(-1)?.kind).toBe("running");
    const wait = { kind: "person", tone: "person", from: 10, to: null, logicalAttemptId: 1 };
    expect(segmentsOf(failed, 0, true).at(-1)).toEqual(wait);
    expect([goesOn(failed, 0), goesOn(failed, 0, true)]).toEqual([false, true]);
    expect(awaitedPerson([failed], 20, 30)).toBe(false);
    expect(awaitedPerson([failed], 20, 30, true)).toBe(true);
    expect(worksNow([failed, step("m", { type: "MANUAL", attempts: [attempt(1, 5, null)] })])).toBe(false);
    expect(worksNow([step("b", { attempts: [attempt(1, 5, null)] })])).toBe(true);
  });

  it("tells the last of several tries from those before it, and names both in the label", () => {
    const failed = { ...attempt(1, 100, 29_100, "FAILED"), engineAttemptId: 3, lastTryMs: 7_700 };
    const segments = segmentsOf(step("a", { status: "FAILED", attempts: [failed] }), 100, true);
    expect(segments.map(({ kind, from, to }) => [kind, from, to])).toEqual([
      ["tries", 100, 21_400],
      ["running", 21_400, 29_100],
      ["person", 29_100, null],
    ]);
    expect(labelOf(segments, 40_000)).toEqual({ from: 100, ms: 29_000, waitMs: 10_900, waits: true });
    expect(labelOf(segments.slice(0, 2), 40_000)?.waitMs).toBeNull();
    expect(labelOf([], 0)).toBeNull();
  });

  it("goes on only where now matters, so that the other rows are not drawn again", () => {
    expect(goesOn(step("a", {}), null)).toBe(false);
    expect(goesOn(step("a", {}), 40)).toBe(true);
    expect(goesOn(step("a", { status: "RUNNING", attempts: [attempt(1, 5, null, "RUNNING")] }), 5)).toBe(true);
    expect(goesOn(step("a", { status: "SUCCESS", attempts: [attempt(1, 5, 9, "SUCCESS")] }), 5)).toBe(false);
  });

  it("takes the end from the duration when it is all there is", () => {
    expect(
      segmentsOf(
        step("a", { status: "SUCCESS", attempts: [{ ...attempt(1, 5, null, "SUCCESS"), durationMs: 20 }] }),
        5,
      )[0]?.to,
    ).toBe(25);
  });
});

describe("readyAt", () => {
  const steps: Record<string, Step> = {
    a: step("a", { status: "SUCCESS", completedAt: 50 }),
    b: step("b", { status: "SUCCESS", completedAt: 80 }),
    c: step("c", { dependsOn: ["a", "b"] }),
    d: step("d", { dependsOn: ["a", "c"] }),
  };
  const of = (id: string): Step => steps[id] ?? step(id, {});
  it("is the end of the last predecessor, and unknown before it", () => {
    expect(readyAt(of("c"), of, 10)).toBe(80);
    expect(readyAt(of("d"), of, 10)).toBeNull();
    expect(readyAt(of("a"), of, 10)).toBe(10);
  });
});

const ran = (id: string, dependsOn: string[], from: number, to: number | null): [string, Step] => [
  id,
  step(id, {
    dependsOn,
    status: to === null ? "RUNNING" : "SUCCESS",
    startedAt: from,
    completedAt: to,
    attempts: [attempt(1, from, to)],
  }),
];

describe("criticalPath", () => {
  it("follows the predecessors that ended last", () => {
    const steps = new Map([
      ran("a", [], 0, 10),
      ran("b", [], 0, 30),
      ran("c", ["a", "b"], 30, 60),
      ran("d", ["a"], 10, 55),
      ran("e", ["c"], 60, null),
    ]);
    const of = (id: string): Step | undefined => steps.get(id);
    expect([...criticalPath([...steps.keys()], of, 90)]).toEqual(["e", "c", "b"]);
    expect([...criticalPath(["a", "b", "c", "d"], of, 90)]).toEqual(["c", "b"]);
    expect(criticalPath([], of, 90).size).toBe(0);
    expect(pathLength(new Set(["b"]), [...steps.keys()], of, 90)).toEqual({ ms: 30, share: 30 / 90 });
    expect(pathLength(new Set(), [...steps.keys()], of, 90)).toBeNull();
  });

  it("leads to the failed step, and counts only the time in which steps ran", () => {
    const [, failed] = ran("bad", ["a"], 10, 50);
    const steps = new Map([
      ran("a", [], 0, 10),
      ["bad", failed] as const,
      ran("other", [], 0, 70),
      ran("late", [], 1_000, 1_030),
    ]);
    const of = (id: string): Step | undefined => steps.get(id);
    const path = criticalPath([...steps.keys()], of, 5_000, "bad");
    expect([...path]).toEqual(["bad", "a"]);
    expect(pathLength(path, [...steps.keys()], of, 5_000), "the run waited from 70 to 1,000").toEqual({
      ms: 50,
      share: 0.5,
    });
  });
});

const paused = (persistedAt: number) => ({ eventType: "RunPaused", persistedAt });
const resumed = (persistedAt: number) => ({ eventType: "RunResumed", persistedAt });

describe("pauseBands", () => {
  it("pairs each pause with the event that ended it", () => {
    expect(pauseBands([paused(10), resumed(20), paused(40)], 40, 100)).toEqual([
      { from: 10, to: 20 },
      { from: 40, to: null },
    ]);
  });
  it("takes the present pause from the header, and ends a pause whose end was not read", () => {
    expect(pauseBands([paused(10), resumed(20)], 40, 100)).toEqual([
      { from: 10, to: 20 },
      { from: 40, to: null },
    ]);
    expect(pauseBands([paused(10)], null, 100)).toEqual([{ from: 10, to: 100 }]);
  });
  it("shows nothing that lies after the moment looked at", () => {
    expect(pauseBands([paused(10), resumed(20), paused(40)], 10, 15)).toEqual([{ from: 10, to: null }]);
  });
});

describe("the axis", () => {
  it("has round times that do not touch", () => {
    const span = { from: 1_234, to: 61_234 };
    const { at, step } = ticks(span, 1_000, 90);
    expect(step).toBe(10_000);
    expect(at).toEqual([10_000, 20_000, 30_000, 40_000, 50_000, 60_000]);
    expect(ticks({ from: 0, to: 100 * 86_400_000 }, 300, 90).at.length).toBeLessThanOrEqual(4);
  });
  it("leaves room ahead of a run that goes on, and keeps it a while", () => {
    const first = wholeSpan(0, null, 60_000);
    expect(first.to).toBeGreaterThan(61_000);
    expect(wholeSpan(0, null, 60_500)).toEqual(first);
    expect(wholeSpan(0, 42_000, 99_000)).toEqual({ from: 0, to: 42_000 });
  });
  it("zooms around a time, within the whole, and no closer than can be read", () => {
    const whole = { from: 0, to: 100_000 };
    const half = zoomedSpan(whole, 0.5, 80_000, whole);
    expect(percent(80_000, half)).toBeCloseTo(80);
    expect(zoomedSpan(half, 9, 0, whole)).toEqual(whole);
    expect(within({ from: 99_990, to: 99_991 }, whole)).toEqual({ from: 99_500, to: 100_000 });
  });
  it("goes into the address and back", () => {
    expect(spanOf(spanText({ from: 1_500, to: 9_000 }, 1_000), 1_000)).toEqual({ from: 1_500, to: 9_000 });
    expect(spanOf("9-3", 0)).toBeNull();
  });
});

it("puts a duration behind its bar, before it near the end, and on its end where there is no room", () => {
  expect(besideBar(0, 40, 5)).toEqual({ left: "40%" });
  expect(besideBar(80, 95, 5)).toEqual({ right: "20%" });
  expect(besideBar(3, 99, 5)).toEqual({ right: "0" });
  expect(besideBar(50, 84, 5, true), "on a phone, where the label needs a fifth of the track").toEqual({
    right: "50%",
  });
  expect([hasRoom(24, 84, 5), hasRoom(24, 84, 45), hasRoom(40, 84, 45)]).toEqual([true, false, true]);
});

describe("a long wait in which nothing ran is shortened", () => {
  const working = [
    { from: 0, to: 2_000 },
    { from: 1_000, to: 3_000 },
    { from: 503_000, to: 504_000 },
    { from: 505_000, to: 506_000 },
  ];
  const breaks = breaksOf(working, () => "person");

  it("only when it is long beside the work", () => {
    expect(breaks).toEqual([{ from: 3_000, to: 503_000, why: "person" }]);
    expect(breaksOf([], () => "idle")).toEqual([]);
    const queued = [...working.slice(0, 2), { from: 13_000, to: 14_000 }];
    expect(
      breaksOf(queued, () => "idle"),
      "steps that waited 10 s for a worker",
    ).toEqual([]);
    expect(breaksOf(queued, () => "person")).toHaveLength(1);
    expect(breaksOf([...working, { from: 4_000, to: 502_000 }], () => "idle")).toEqual([]);
  });

  it("so that the bars keep their size, and every place of the axis is a time", () => {
    const scale = scaleOf({ from: 0, to: 506_000 }, breaks);
    expect(percent(3_000, scale)).toBeCloseTo(48);
    expect(percent(503_000, scale)).toBeCloseTo(52);
    expect(percent(506_000, scale)).toBeCloseTo(100);
    for (const time of [0, 1_500, 3_000, 253_000, 503_000, 505_500, 506_000])
      expect(timeAt(percent(time, scale), scale)).toBeCloseTo(time);
  });

  it("also the one that goes on now, up to now", () => {
    const now = 1_500_000;
    const current = breaksOf([...working, { from: now, to: now }], () => "person");
    expect(current.at(-1)).toEqual({ from: 506_000, to: now, why: "person" });
    const span = waitingSpan(0, now, 500_000 + 994_000);
    expect(span).toEqual({ from: 0, to: now + 900 });
    const scale = scaleOf(span, current);
    expect(percent(506_000, scale), "the bars keep their size").toBeGreaterThan(75);
    expect(percent(now, scale)).toBeLessThan(100);
  });

  it("unless the span begins or ends in it, and without a tick in it", () => {
    expect(scaleOf({ from: 0, to: 100_000 }, breaks).breaks).toEqual([]);
    const { at } = ticks(scaleOf({ from: 0, to: 506_000 }, breaks), 800, 96);
    expect(at.length).toBeGreaterThan(3);
    expect(at.filter((time) => time > 3_000 && time < 503_000)).toEqual([]);
  });
});

it("leaves out a time whose label would be cut", () => {
  expect([fits(0, 800), fits(92, 800), fits(92.1, 800), fits(100, 800)]).toEqual([true, true, false, false]);
});

it("draws the wait of a failed step until a person skipped it, without a bar for the skip", () => {
  const skipped = step("a", {
    status: "SKIPPED",
    completedAt: 9_000,
    attempts: [attempt(1, 1_000, 2_000, "FAILED"), attempt(2, null, 9_000, "SKIPPED")],
  });
  const spans = segmentsOf(skipped, 1_000).map(({ kind, from, to }) => [kind, from, to]);
  expect(spans).toEqual([
    ["running", 1_000, 2_000],
    ["person", 2_000, 9_000],
  ]);
});
