import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { actionWords, nameOf, objectWords, reasonWords, suggestedActions } from "./words";

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

/** The actions that the server writes into the audit, as its sources declare them. */
function audited(): string[] {
  const root = fileURLToPath(new URL("../../../", import.meta.url));
  const sources = ["authz", "control", "erasure", "export", "store"].flatMap((folder) =>
    readdirSync(`${root}${folder}`, { recursive: true, encoding: "utf8" })
      .filter((file) => file.endsWith(".go") && !file.endsWith("_test.go") && !file.startsWith("storetest"))
      .map((file) => readFileSync(`${root}${folder}/${file}`, "utf8")),
  );
  const declared = /(?:\b[aA]ction[A-Z]\w*(?: +\w+\.Action)? += |\b[A-Z]\w* +Action += |\bAction: +)"([A-Z_]+)"/g;
  const found = sources.flatMap((text) => [...text.matchAll(declared)].map(([, action]) => action ?? ""));
  const incidents = sources.flatMap((text) =>
    [...text.matchAll(/ IncidentAct = "([A-Z_]+)"/g)].map(([, act]) => `${act}_INCIDENT`),
  );
  return [...new Set([...found, ...incidents])].toSorted();
}

it("has words for every action that the server audits, and suggests each", () => {
  const actions = audited();
  expect(actions.length).toBeGreaterThan(60);
  expect(actions.filter((action) => nameOf(action) === action)).toEqual([]);
});
