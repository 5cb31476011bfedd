import { expect, it } from "vitest";
import { buildInput, type BuiltInput, EMPTY_DRAFT } from "./draft";
import { Intents } from "./intents";
import { newIntent, type Sendable } from "./intent";

it("mints one signal id for each intent, in the alphabet of the API", () => {
  const a = newIntent("PAUSE", "run", null, null);
  const b = newIntent("PAUSE", "run", null, null);
  expect(a.signalId).not.toBe(b.signalId);
  expect(a.signalId).toMatch(/^[A-Za-z0-9_.-]{1,128}$/);
});

function tab(): Intents {
  const held = new Map<string, string>();
  return new Intents({ getItem: (key) => held.get(key) ?? null, setItem: (key, value) => void held.set(key, value) });
}

it("25 keeps an intent without an answer over a reload, with its signalId and its form", () => {
  const intents = tab();
  const first = intents.form("PAUSE", "r1", null, null);
  intents.keep({ ...first, draft: { ...EMPTY_DRAFT, reason: "maintenance" }, sent: "x" });
  const again = intents.form("PAUSE", "r1", null, null);
  expect([again.intent.signalId, again.draft.reason, again.sent]).toEqual([first.intent.signalId, "maintenance", "x"]);
  expect(intents.form("PAUSE", "r2", null, null).intent.signalId).not.toBe(first.intent.signalId);
  expect(intents.form("RETRY_STEP", "r1", "a", 2).intent.signalId).not.toBe(first.intent.signalId);
  intents.forget(first.intent);
  expect(intents.form("PAUSE", "r1", null, null).intent.signalId).not.toBe(first.intent.signalId);
});

it("25 sends the same content as the same intent, and another content as another one", () => {
  const intents = tab();
  const of = { action: "RETRY_STEP", runId: "r1", stepId: "a", logicalAttemptId: 1 } as const;
  const first = intents.sending(of, EMPTY_DRAFT, "x").signalId;
  expect(intents.sending(of, EMPTY_DRAFT, "x").signalId).toBe(first);
  const other = intents.sending(of, EMPTY_DRAFT, "y");
  expect(other.signalId).not.toBe(first);
  intents.forget(other);
  expect(intents.sending(of, EMPTY_DRAFT, "y").signalId).not.toBe(other.signalId);
});

it("ignores stored text that it has not written", () => {
  expect(new Intents({ getItem: () => "{", setItem: () => {} }).form("PAUSE", "r", null, null).sent).toBeNull();
});

function of(action: Sendable, draft: Partial<typeof EMPTY_DRAFT> = {}, token: string | null = "t"): BuiltInput {
  return buildInput(
    { ...newIntent(action, "r", "s", 2), signalId: "id" },
    { ...EMPTY_DRAFT, reason: "why", ...draft },
    token,
  );
}

it("23 builds the input of each action, or names the missing part", () => {
  expect(of("RETRY_STEP", { force: true })).toEqual({
    input: {
      signal: {
        runId: "r",
        signal: { retryStep: { stepId: "s", reason: "why", force: true, expectedLogicalAttemptId: 2 } },
      },
    },
  });
  expect(of("UPDATE_PARAMS", { patch: '{"day":null}' })).toEqual({
    input: {
      signal: { runId: "r", signal: { updateParams: { stepId: "s", newParams: { day: null }, reason: "why" } } },
    },
  });
  expect(of("UPDATE_TARGET", { schema: "x" })).toEqual({
    input: {
      signal: { runId: "r", signal: { updateTarget: { stepId: "s", newTarget: { schema: "x" }, reason: "why" } } },
    },
  });
  expect(of("COMPLETE_MANUAL_STEP", { evidence: " https://a \n\nhttps://b" })).toEqual({
    input: {
      completeManualStep: {
        runId: "r",
        stepId: "s",
        token: "t",
        outcome: "SUCCEEDED",
        notes: "why",
        evidenceRefs: ["https://a", "https://b"],
      },
    },
  });
  expect(of("RERUN", { from: "step" })).toEqual({
    input: { rerun: { runId: "r", runRequestId: "id", reason: "why", params: null, from: { steps: ["s"] } } },
  });
  expect(of("RERUN", { from: "step", step: "t", patch: '{"day":1}' })).toEqual({
    input: { rerun: { runId: "r", runRequestId: "id", reason: "why", params: { day: 1 }, from: { steps: ["t"] } } },
  });
  const missing = [
    of("RERUN", { patch: "[1]" }),
    of("UPDATE_PARAMS"),
    of("INJECT_OVERRIDE", { patch: "[1]" }),
    of("INJECT_OVERRIDE", { patch: "{" }),
    of("UPDATE_TARGET"),
    of("EMERGENCY_STOP", { reason: " " }),
    of("COMPLETE_MANUAL_STEP", {}, null),
  ];
  expect(missing.every((asked) => "missing" in asked)).toBe(true);
});
