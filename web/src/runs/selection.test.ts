import { describe, expect, it } from "vitest";
import type { Step } from "../api/model";
import { groupsOf, matches, sortSteps } from "./selection";

function step(stepId: string, status: Step["status"], over: Partial<Step> = {}): Step {
  // Only what a selection looks at.
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
const ALL = { show: [], find: "", group: null } as const;
function shown(query: Parameters<typeof matches>[1]): string[] {
  return [...STEPS.values()].filter((each) => matches(each, query)).map(({ stepId }) => stepId);
}

describe("the steps asked for", () => {
  it("are all, or those of a status, a text or a group", () => {
    expect(shown(ALL)).toHaveLength(5);
    expect(shown({ ...ALL, show: ["FAILED", "PENDING"] })).toEqual(["stg_items", "mart", "report"]);
    expect(shown({ ...ALL, show: ["WAITING"] })).toEqual(["mart", "sign_off"]);
    expect(shown({ ...ALL, find: "TOTALS" })).toEqual(["sign_off"]);
    expect(shown({ ...ALL, group: "stg", show: ["FAILED"] })).toEqual(["stg_items"]);
  });

  it("come in the order of the plan, or failed first", () => {
    const order = [...STEPS.keys()];
    const of = (id: string): Step | undefined => STEPS.get(id);
    expect(sortSteps(order, of, null)).toBe(order);
    expect(sortSteps(order, of, "failed")).toEqual(["stg_items", "mart", "sign_off", "report", "stg_orders"]);
    expect(groupsOf(order, of)).toEqual(["stg", "marts"]);
  });
});
