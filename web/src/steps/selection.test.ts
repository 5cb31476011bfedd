import { describe, expect, it } from "vitest";
import type { Step } from "../api/model";
import { groupsOf, matches, sortSteps } from "./selection";

function step(stepId: string, status: Step["status"], over: Partial<Step> = {}): Step {
  // Only the fields that a selection reads.
  return { stepId, name: null, group: null, status, substatus: null, pendingRetry: false, ...over } as Step;
}

const STEPS = new Map(
  [
    step("stg_orders", "SUCCESS", { group: "stg" }),
    step("stg_items", "FAILED", { group: "stg" }),
    step("mart", "FAILED", { group: "marts", pendingRetry: true }),
    step("sign_off", "RUNNING", { substatus: "WAITING_MANUAL", name: "Check the totals" }),
    step("report", "PENDING"),
  ].map((each) => [each.stepId, each]),
);
const HOLD = { failed: ["stg_items"], held: new Set(["report", "mart"]), needs: new Map([["report", "stg_items"]]) };
const BY = { now: 100_000, medians: null };
const ALL = { show: [], find: "", group: null } as const;
function shown(query: Parameters<typeof matches>[1]): string[] {
  return [...STEPS.values()].filter((each) => matches(each, query, HOLD)).map(({ stepId }) => stepId);
}

describe("the steps asked for", () => {
  it("are all, or those of a status, a text or a group", () => {
    expect(shown(ALL)).toHaveLength(5);
    expect(shown({ ...ALL, show: ["FAILED", "PENDING"] })).toEqual(["stg_items", "mart", "report"]);
    expect(shown({ ...ALL, show: ["WAITING"] })).toEqual(["mart", "sign_off"]);
    expect(shown({ ...ALL, show: ["HELD"] })).toEqual(["mart", "report"]);
    expect(shown({ ...ALL, show: ["BLOCKED"] })).toEqual(["report"]);
    expect(shown({ ...ALL, find: "TOTALS" })).toEqual(["sign_off"]);
    expect(shown({ ...ALL, group: "stg", show: ["FAILED"] })).toEqual(["stg_items"]);
  });

  it("come in the order of the plan, or failed first", () => {
    const order = [...STEPS.keys()];
    const of = (id: string): Step | undefined => STEPS.get(id);
    expect(sortSteps(order, of, "plan", BY)).toBe(order);
    expect(sortSteps(order, of, "failed", BY)).toEqual(["stg_items", "mart", "sign_off", "report", "stg_orders"]);
    expect(groupsOf(order, of)).toEqual(["stg", "marts"]);
  });

  it("are sorted by duration or by distance above the median; a running step counts up to now", () => {
    const timed = new Map(
      [
        step("quick", "SUCCESS", { startedAt: 0, durationMs: 5_000 }),
        step("new", "SUCCESS", { startedAt: 0, durationMs: 70_000 }),
        step("runs", "RUNNING", { startedAt: 60_000, durationMs: null, completedAt: null }),
        step("slow", "SUCCESS", { startedAt: 0, durationMs: 30_000 }),
        step("waits", "PENDING", { startedAt: null, durationMs: null }),
      ].map((each) => [each.stepId, each]),
    );
    const medians = new Map([
      ["quick", 20_000],
      ["runs", 30_000],
      ["slow", 5_000],
    ]);
    const sorted = (sort: "took" | "median") =>
      sortSteps([...timed.keys()], (id) => timed.get(id), sort, { now: 100_000, medians });
    expect(sorted("took")).toEqual(["new", "runs", "slow", "quick", "waits"]);
    expect(sorted("median")).toEqual(["slow", "runs", "quick", "new", "waits"]);
  });
});
