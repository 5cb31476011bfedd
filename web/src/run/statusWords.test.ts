import { expect, it } from "vitest";
import { available, header, NOW } from "../testing/fixtures";
import { AVAILABLE } from "../testing/render";
import { statusWords } from "./statusWords";

const WAITING = header({ status: "PENDING", statusRaw: "PENDING", substatus: "QUEUED", createdAt: NOW - 180_000 });
const ENTRY = { position: 1, waitsFor: "PLACE", estimatedWaitMs: null, expiresAt: null, slots: null } as const;
type Slots = { scope: "TENANT" | "INSTALLATION"; active: number | null; max: number | null } | null;

function words(slots: Slots, over: object = {}): string | null {
  return statusWords(WAITING, NOW, { ...AVAILABLE, queue: { ...ENTRY, slots, ...over } }, undefined);
}

it("promises no time when the start depends on the end of another run", () => {
  const before = "position 1 in the queue of its project · waiting for 3 m 0 s · All run slots are in use";
  expect(words({ scope: "TENANT", active: 2, max: 2 })).toBe(`${before} · starts when one of 2 active runs ends`);
  expect(words({ scope: "TENANT", active: 11, max: 3 }), "the limit was lowered").toBe(
    `${before} · starts when 9 of 11 active runs have ended`,
  );
  expect(words({ scope: "INSTALLATION", active: null, max: null })).toBe(`${before} · starts when another run ends`);
});

it("says how long a run probably waits for a token", () => {
  expect(words(null, { waitsFor: "QUOTA", estimatedWaitMs: 9_000 })).toBe(
    "position 1 in the queue of its project · waiting for 3 m 0 s · The quota of starts is used up for now · " +
      "starts in about 9 s (estimate)",
  );
});

it("says nothing of slots to a run behind others, or on hold", () => {
  const slots = { scope: "TENANT", active: 2, max: 2 } as const;
  expect(words(slots, { position: 4, waitsFor: "TURN" })).not.toContain("starts");
  expect(words(slots, { waitsFor: "HOLD" })).not.toContain("starts");
});

it("says when nobody else can give the missing approval", () => {
  const approval = { required: 2, expiresAt: new Date(NOW + 7_200_000).toISOString(), decisions: [] };
  const run = new Map([["APPROVE", available("APPROVE", { whoCould: [] })] as const]);
  expect(statusWords(WAITING, NOW, { ...AVAILABLE, approval, run }, undefined)).toMatch(
    /^Only you can approve, which is not enough: change the policy or cancel · 0 of 2 approvals/,
  );
  const other = available("APPROVE", { outcome: "REFUSED", code: "FORBIDDEN", whoCould: ["dora"] });
  const words = statusWords(WAITING, NOW, { ...AVAILABLE, approval, run: new Map([["APPROVE", other]]) }, undefined);
  expect(words).toMatch(/^Only dora can approve, which is not enough/);
});

it("counts the approvals and names who gave them", () => {
  const decisions = [{ principal: "ben", decision: "APPROVE" as const, reason: null, at: "" }];
  const approval = { required: 2, expiresAt: new Date(NOW + 7_200_000).toISOString(), decisions };
  expect(statusWords(WAITING, NOW, { ...AVAILABLE, approval }, undefined)).toBe(
    "1 of 2 approvals (ben) · cancelled in 2 h 00 m · waiting for 3 m 0 s",
  );
});

it("writes hours as hours, and the message of a run that failed before a step ran instead of its code", () => {
  const open = header({ substatus: "AWAITING_OPERATOR", retryDeadline: NOW + 8_700_000 });
  expect(statusWords(open, NOW, AVAILABLE, undefined)).toMatch(/^2 h 25 m left to retry/);
  const soon = header({ substatus: "AWAITING_OPERATOR", retryDeadline: NOW + 2_700_000 });
  expect(statusWords(soon, NOW, AVAILABLE, undefined)).toMatch(/^45 min left to retry/);
  const cause = { ...header().rootCause, stepId: null, code: "QUEUE_TTL_EXCEEDED" };
  const failed = (message: string | null) =>
    header({ status: "FAILED", failedSteps: 0, rootCause: { ...cause, message } as never });
  const words = "The run waited for 5 min and was not started.";
  expect(statusWords(failed(words), NOW, AVAILABLE, undefined)).toBe(words);
  expect(statusWords(failed(null), NOW, AVAILABLE, undefined)).toBe("QUEUE_TTL_EXCEEDED");
});
