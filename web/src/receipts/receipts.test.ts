import { expect, it } from "vitest";
import type { Signal } from "../api/model";
import { failed, movingReason, Receipts, settled } from "./receipts";

function signal(signalId: string, fields: Partial<Signal>): Signal {
  return {
    signalId,
    runId: "r",
    decision: "ACCEPTED",
    application: "PENDING",
    quiescentSeq: null,
    receivedAt: 1,
    ...fields,
  } as Signal;
}

it("never takes a receipt back a stage", () => {
  const receipts = new Receipts(null);
  receipts.receive(signal("a", { application: "APPLIED", appliedSeq: 9 }));
  receipts.receive(signal("a", { application: "DELIVERED" }), signal("a", {}));
  expect(receipts.list()[0]?.application).toBe("APPLIED");
  receipts.receive(signal("a", { application: "APPLIED", appliedSeq: 9, quiescentSeq: 12 }));
  receipts.receive(signal("a", { application: "APPLIED", appliedSeq: 9 }));
  expect(receipts.list()[0]?.quiescentSeq).toBe(12);
});

it("lists the newest first and keeps a bounded number", () => {
  const receipts = new Receipts(null);
  receipts.receive(signal("moving", { receivedAt: 0 }));
  for (let i = 1; i <= 300; i++) receipts.receive(signal(`s${i}`, { receivedAt: i, application: "APPLIED" }));
  expect(receipts.list()).toHaveLength(201);
  expect(receipts.list()[0]?.signalId).toBe("s300");
  expect(receipts.list().at(-1)?.signalId, "what is on its way stays").toBe("moving");
});

it("tells settled receipts from those that a person must read", () => {
  const cases = [
    { application: "DELIVERED" },
    { application: "NOOP" },
    { application: "NOT_APPLIED" },
    { decision: "REJECTED", application: null },
  ] as const;
  expect(cases.map((fields) => [settled(signal("a", fields)), failed(signal("a", fields))])).toEqual([
    [false, false],
    [true, false],
    [true, true],
    [true, true],
  ]);
});

it("says when dvt ends a run by itself, but not in the first moment of an ordinary stop", () => {
  const applicationReason = "the engine has not taken the order yet";
  const stop = signal("a", { type: "CANCEL", applicationReason });
  expect([movingReason(stop), movingReason(stop, true), movingReason(stop, false)]).toEqual([
    applicationReason,
    applicationReason,
    null,
  ]);
  expect(movingReason({ ...stop, application: "NOOP" })).toBeNull();
});

it("remembers up to when each of a bounded number of places was read, and never takes that back", () => {
  const kept = new Map<string, string>();
  const storage = {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => void kept.set(key, value),
  };
  const receipts = new Receipts(storage);
  for (let i = 1; i <= 150; i++) receipts.see(`run-${i}`, i);
  receipts.see("tray", 500);
  receipts.see("tray", 400);
  const again = new Receipts(storage).seen();
  expect(again.size).toBe(100);
  expect([again.get("tray"), again.get("run-150"), again.get("run-1")]).toEqual([500, 150, undefined]);
});

it("remembers dismissed receipts", () => {
  const kept = new Map<string, string>();
  const storage = {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => void kept.set(key, value),
  };
  new Receipts(storage).dismiss("a");
  expect(new Receipts(storage).dismissed().has("a")).toBe(true);
});
