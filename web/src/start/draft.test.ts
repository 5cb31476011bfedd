import { describe, expect, it } from "vitest";
import { hasInput, edited, keepDraft, keptDraft, newDraft, scopeOf, toAsked } from "./draft";

function storage() {
  const kept = new Map<string, string>();
  return {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => void kept.set(key, value),
  };
}
const PLAN = '{"scope": {"projectId": "shop", "environmentId": "prod"}}';

describe("the form of a new run", () => {
  it("25 keeps its request over a reload, and is another one at another place of the history", () => {
    const kept = storage();
    const draft = newDraft("a", { plan: PLAN, projectId: "shop", environmentId: "prod" });
    keepDraft(kept, draft);
    expect(keptDraft(kept, "a")).toEqual(draft);
    expect(keptDraft(kept, "b")).toBeNull();
  });

  it("25 is another request when it is changed after it has started a run", () => {
    const draft = newDraft("a");
    expect(edited(draft, { plan: "{}" }).runRequestId).toBe(draft.runRequestId);
    const next = edited({ ...draft, started: "r1" }, { plan: "{}" });
    expect(next.started).toBeNull();
    expect(next.runRequestId).not.toBe(draft.runRequestId);
  });

  it("names the missing part before it asks", () => {
    expect(toAsked(newDraft("a"))).toHaveProperty("missing");
    expect(toAsked(newDraft("a", { plan: "{" }))).toMatchObject({ problem: { field: "plan" } });
    expect(toAsked(newDraft("a", { plan: PLAN }))).toHaveProperty("missing");
    const whole = newDraft("a", { plan: PLAN, projectId: "shop", environmentId: "prod", params: '{"day": 1}' });
    expect(toAsked(whole)).toEqual({
      start: {
        plan: { inline: JSON.parse(PLAN) },
        runRequestId: whole.runRequestId,
        projectId: "shop",
        environmentId: "prod",
        params: { day: 1 },
      },
    });
    expect(toAsked({ ...whole, params: "[" })).toMatchObject({ problem: { field: "params" } });
    expect(toAsked(newDraft("a", { source: "run", from: "r1" }))).toMatchObject({
      rerun: { runId: "r1", from: { start: true } },
    });
  });

  it("takes YAML as well as JSON, and names the line that cannot be read", () => {
    const yaml = "scope:\n  projectId: shop\n  environmentId: prod\n";
    const place = { projectId: "shop", environmentId: "prod" };
    expect(toAsked(newDraft("a", { plan: yaml, ...place }))).toMatchObject({
      start: { plan: { inline: JSON.parse(PLAN) } },
    });
    expect(scopeOf(yaml)).toEqual(place);
    expect(toAsked(newDraft("a", { plan: "a: 1\na: 2\n", ...place }))).toMatchObject({
      problem: { field: "plan", line: 2 },
    });
  });

  it("asks for another priority than the usual one only", () => {
    const whole = { plan: PLAN, projectId: "shop", environmentId: "prod" };
    expect(toAsked(newDraft("a", { ...whole, priority: 9 }))).toMatchObject({ start: { priority: 9 } });
    expect(toAsked(newDraft("a", whole))).not.toHaveProperty("start.priority");
  });

  it("reads the place from the plan", () => {
    expect(scopeOf(PLAN)).toEqual({ projectId: "shop", environmentId: "prod" });
    expect(scopeOf("{}")).toBeNull();
  });
});

it("knows a draft in which somebody has written from the one of the address", () => {
  const fresh = newDraft("a", { projectId: "shop" });
  expect(hasInput(newDraft("a", { projectId: "shop" }), fresh)).toBe(false);
  expect(hasInput({ ...fresh, plan: "steps: []" }, fresh)).toBe(true);
});
