import { describe, expect, it } from "vitest";
import { cancelledWords } from "./runWords";

const CANCEL = {
  signalId: "s1",
  signalType: "CANCEL",
  actor: "ana",
  reason: "wrong day",
  code: null,
  at: 0,
  runSeq: 9,
} as const;

describe("cancelledWords", () => {
  it.each([
    [{}, "cancelled by ana: “wrong day”"],
    [{ reason: null }, "cancelled by ana"],
    [{ signalType: "EMERGENCY_STOP" } as const, "emergency stop by ana: “wrong day”"],
    [{ signalId: null, signalType: null, code: "APPROVAL_REJECTED" }, "approval rejected by ana: “wrong day”"],
    [
      { signalId: null, signalType: null, actor: "dvt", code: "APPROVAL_EXPIRED", reason: "0 of 1 approved." },
      "not approved in time: 0 of 1 approved.",
    ],
  ])("says who ended the run and why: %o", (over, words) => {
    expect(cancelledWords({ ...CANCEL, ...over })).toBe(words);
  });
});
