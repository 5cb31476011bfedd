import { expect, it } from "vitest";
import { type AttentionState, NOTHING, receive } from "./state";

const frame = { sync: "LIVE", reason: null, asOf: "2026-11-22T03:00:01Z", count: 0, items: [] } as const;
const AT = Date.parse("2026-11-22T03:00:00Z");

it("takes the items of a frame, and keeps them when a frame has none", () => {
  const empty = receive(NOTHING, { ...frame, items: [] }, AT);
  expect(empty).toMatchObject({ items: [], count: 0, stale: false, offset: 1_000 } satisfies Partial<AttentionState>);
  const stale = receive(empty, { ...frame, sync: "STALE", asOf: null, count: null, items: null }, AT);
  expect(stale).toMatchObject({ items: [], count: 0, stale: true, offset: 1_000 });
});
