import { expect, it } from "vitest";
import { changes } from "./changes";

it("names each change of an edit, before and after, and nothing else", () => {
  const before = {
    sod: { approve: true, completeManual: true },
    grants: [{ principal: "ana", role: "ADMIN" }],
    ttlMs: 300_000,
  };
  const after = {
    sod: { approve: false, completeManual: true },
    grants: [
      { principal: "ben", role: "VIEWER" },
      { principal: "ana", role: "ADMIN" },
    ],
    strategy: "QUEUE",
  };
  expect(changes(before, after)).toEqual([
    { path: "sod.approve", before: "true", after: "false" },
    { path: "grants", before: null, after: '{"principal":"ben","role":"VIEWER"}' },
    { path: "ttlMs", before: "300000", after: null },
    { path: "strategy", before: null, after: '"QUEUE"' },
  ]);
  expect(changes(before, before)).toEqual([]);
});
