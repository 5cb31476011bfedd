import { expect, it } from "vitest";
import type { RunEvent } from "../api/model";
import { collectEvents, NO_EVENTS } from "./events";

const events = (...seqs: number[]): RunEvent[] => seqs.map((runSeq) => ({ runSeq }) as RunEvent);
const seqs = (log: { events: readonly RunEvent[] }): number[] => log.events.map((event) => event.runSeq);

it("adds each event once, in order, holes and all", () => {
  let log = collectEvents(NO_EVENTS, { reset: false, events: events(1, 2, 4) });
  log = collectEvents(log, { reset: false, events: events(2, 4, 5) });
  log = collectEvents(log, { reset: false, events: [] });
  expect(seqs(log)).toEqual([1, 2, 4, 5]);
});

it("starts again after a reset", () => {
  const log = collectEvents(NO_EVENTS, { reset: false, events: events(1, 2, 3) });
  expect(seqs(collectEvents(log, { reset: true, events: events(1) }))).toEqual([1]);
});

it("keeps a bounded number and says how many it dropped", () => {
  const log = collectEvents(NO_EVENTS, {
    reset: false,
    events: events(...Array.from({ length: 20_005 }, (_, i) => i + 1)),
  });
  expect([log.events.length, log.dropped, log.events[0]?.runSeq]).toEqual([20_000, 5, 6]);
});
