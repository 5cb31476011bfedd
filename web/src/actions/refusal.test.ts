import { describe, expect, it } from "vitest";
import type { Availability, Signal } from "../api/model";
import type { Verdict, VerdictState } from "../runstate/store";
import { available } from "../testing/fixtures";
import { explain, isStuck, refusal } from "./refusal";

const allowed: Availability = {
  action: "PAUSE",
  outcome: "APPLY",
  code: null,
  reason: null,
  rule: null,
  requiredRole: null,
  whoCould: [],
  reasonRequired: false,
  strength: "REVERSIBLE",
};

function verdict(state: VerdictState, seq = 10): Verdict {
  return { state, reason: null, since: 0, asOf: 0, lagMs: 0, seq, headSeq: seq };
}
function receipt(fields: Partial<Signal>): Signal {
  return { decision: "ACCEPTED", application: "PENDING", appliedSeq: null, ...fields } as Signal;
}
const base = {
  action: "PAUSE",
  availability: allowed,
  verdict: verdict("LIVE"),
  ageMs: 0,
  draining: 0,
  receipt: undefined,
} as const;

describe("a button", () => {
  it("is on when the server would apply the action", () => {
    expect(refusal(base)).toBeNull();
  });

  it("is off with rule, role and who could when refused", () => {
    const refused: Availability = {
      ...allowed,
      outcome: "REFUSED",
      code: "FORBIDDEN",
      requiredRole: "OPERATOR",
      whoCould: ["ana", "ben"],
    };
    expect(refusal({ ...base, availability: refused })).toBe("Needs Operator. Who can do this: ana, ben.");
    expect(explain({ ...allowed, outcome: "NOOP" })).toBe("It would change nothing.");
  });

  it("is off until the server has answered", () => {
    expect(refusal({ ...base, availability: undefined })).not.toBeNull();
  });

  it("is off while offline; while stale only stopping stays", () => {
    expect(refusal({ ...base, verdict: verdict("OFFLINE") })).not.toBeNull();
    expect(refusal({ ...base, verdict: verdict("STALE") })).toBeNull();
    expect(refusal({ ...base, action: "CANCEL", verdict: verdict("STALE") })).toBeNull();
    expect(refusal({ ...base, action: "RETRY_STEP", verdict: verdict("STALE"), ageMs: 12_000 })).toContain("12 s old");
  });

  it("is offered again only when the page shows the effect of the last one", () => {
    expect(refusal({ ...base, receipt: receipt({}) })).not.toBeNull();
    expect(refusal({ ...base, receipt: receipt({ application: "DELIVERED" }) })).not.toBeNull();
    const applied = receipt({ application: "APPLIED", appliedSeq: 12 });
    expect(refusal({ ...base, receipt: applied, verdict: verdict("LIVE", 11) })).toContain("seq 12");
    expect(refusal({ ...base, receipt: applied, verdict: verdict("LIVE", 12) })).toBeNull();
    expect(refusal({ ...base, receipt: receipt({ application: "NOT_APPLIED" }) })).toBeNull();
  });

  it("of a retry that the policy denies is on: force is offered where it is confirmed", () => {
    const denied: Availability = { ...allowed, action: "RETRY_STEP", outcome: "REFUSED", code: "RETRY_POLICY_DENIED" };
    expect(refusal({ ...base, action: "RETRY_STEP", availability: denied })).toBeNull();
    expect(refusal({ ...base, action: "SKIP_STEP", availability: denied })).not.toBeNull();
  });

  it("that would start something is off while the run is being paused", () => {
    expect(refusal({ ...base, action: "RESUME", draining: 2 })).toContain("2 running steps");
    expect(refusal({ ...base, action: "RETRY_STEP", draining: 1 })).toContain("1 running step");
    expect(refusal({ ...base, action: "CANCEL", draining: 2 })).toBeNull();
  });

  it("is off while an earlier moment is shown", () => {
    expect(refusal({ ...base, action: "PAUSE", verdict: verdict("PAST") })).toContain("earlier moment");
  });
});

const EVA = { principal: "eva", decision: "APPROVE" as const, reason: null, at: "2026-11-21T03:00:00Z" };
const OPEN = { required: 2, expiresAt: "2026-11-22T03:00:00Z", decisions: [] };

it("sees before the first approval that nobody else could give the second", () => {
  expect(isStuck(available("APPROVE", { whoCould: [] }), OPEN)).toBe(true);
  expect(isStuck(available("APPROVE", { whoCould: ["ben"] }), OPEN)).toBe(false);
  expect(isStuck(available("APPROVE", { whoCould: [] }), { ...OPEN, decisions: [EVA] })).toBe(false);
});

it("sees after the viewer's approval that nobody is left, and says nothing where the server has not looked", () => {
  const decided = available("APPROVE", { outcome: "NOOP", code: "ALREADY_IN_STATE", whoCould: [] });
  expect(isStuck(decided, { ...OPEN, decisions: [EVA] })).toBe(true);
  expect(isStuck({ ...decided, outcome: "REFUSED", code: "TENANT_FROZEN" }, OPEN)).toBe(false);
  expect(isStuck(decided, { ...OPEN, expiresAt: null })).toBe(false);
  expect(isStuck(undefined, OPEN)).toBe(false);
});
