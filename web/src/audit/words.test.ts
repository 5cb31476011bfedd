import { expect, it } from "vitest";
import { actionWords, objectWords, reasonWords, suggestedActions } from "./words";

function of(action: string, detail: object): string[] {
  const row = { action, outcome: "ACCEPTED", reason: "", detail: JSON.stringify(detail) };
  return [actionWords(row), objectWords(row), reasonWords(row)];
}

it("names actions and their objects", () => {
  expect(of("RETRY_STEP", { stepId: "load", force: true })).toEqual(["Retry step", "load, forced", ""]);
  expect(of("COMPLETE_MANUAL_STEP", { stepId: "ok", notes: "seen" })).toEqual(["Complete step", "ok", "seen"]);
  expect(of("START", { planId: "nightly", planVersion: "1.0", projectId: "shop" })[1]).toBe("plan nightly@1.0");
  expect(of("FREEZE_TENANT", { tenantId: "acme", frozen: false })[0]).toBe("Unfreeze the tenant");
  expect(of("SET_POLICY", { policyVersion: 4 })[1]).toBe("version 4");
  expect(of("NEW_ACTION", {})).toEqual(["NEW_ACTION", "", ""]);
});

it("gives the version of a policy that refused something no place as an object", () => {
  expect(objectWords({ action: "PAUSE", outcome: "DENIED", detail: '{"policyVersion":4}' })).toBe("");
  expect(objectWords({ action: "PAUSE", outcome: "DENIED", detail: "not JSON" })).toBe("");
});

it("suggests the words by which the server finds an action", () => {
  expect(suggestedActions()).toContainEqual({ value: "retry step", word: "Retry step" });
  expect(suggestedActions()).toContainEqual({ value: "break glass", word: "Break glass" });
});
