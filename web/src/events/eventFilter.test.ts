import { expect, it } from "vitest";
import type { RunEvent } from "../api/model";
import { eventLines, logRows, stepOf, typesOf } from "./eventFilter";

const events = [
  [1, "RunQueued"],
  [2, "RunStarted"],
  [5, "StepStarted"],
  [6, "FutureThing"],
].map(([runSeq, eventType]) => ({ runSeq, eventType, persistedAt: 0 }) as RunEvent);

it("10 lists the newest first, unused positions as lines of their own, unknown types as they are", () => {
  const rows = logRows(events, [], null).map((row) =>
    row.kind === "event" ? row.event.eventType : `${row.from}-${row.to}`,
  );
  expect(rows).toEqual(["FutureThing", "StepStarted", "3-4", "RunStarted", "RunQueued"]);
});

it("lists only the wanted types, and nothing after the position that is shown", () => {
  expect(logRows(events, ["RunStarted", "FutureThing"], 5)).toEqual([{ kind: "event", event: events[1], after: 0 }]);
  expect(logRows(events, [], 2).length).toBe(2);
});

it("lists the events of a step, its signals too, without the unused positions", () => {
  const ofStep = [
    { ...events[0], stepId: "load", payload: {} },
    { ...events[1], stepId: null, payload: { stepId: "load" } },
    { ...events[2], stepId: "other", payload: null },
  ] as RunEvent[];
  const rows = logRows(ofStep, [], null, (event) => stepOf(event) === "load");
  expect(rows.map((row) => (row.kind === "event" ? row.event.runSeq : "unused"))).toEqual([2, 1]);
});

it("says how long after the event before it each event came, also when that is not shown", () => {
  const timed = events.map((event, i) => ({ ...event, persistedAt: i * 1_500 }));
  const rows = logRows(timed, ["RunQueued", "StepStarted"], null);
  expect(rows.map((row) => (row.kind === "event" ? row.after : "unused"))).toEqual([1_500, null]);
});

it("counts types, and writes a line for each event in the order of the log", () => {
  expect(typesOf(events, null)).toEqual([
    ["FutureThing", 1],
    ["RunQueued", 1],
    ["RunStarted", 1],
    ["StepStarted", 1],
  ]);
  expect(typesOf(events, 2)).toEqual([
    ["FutureThing", 0],
    ["RunQueued", 1],
    ["RunStarted", 1],
    ["StepStarted", 0],
  ]);
  expect(
    eventLines(events)
      .trim()
      .split("\n")
      .map((line) => (JSON.parse(line) as RunEvent).runSeq),
  ).toEqual([1, 2, 5, 6]);
});
