import { expect, it } from "vitest";
import type { ActionFieldsFragment, TaskFieldsFragment } from "../api/gen/graphql";
import { type Approval, isMine, toItems } from "./items";

const may: ActionFieldsFragment = {
  action: "APPROVE",
  outcome: "APPLY",
  code: null,
  reason: null,
  rule: null,
  requiredRole: null,
  whoCould: [],
  reasonRequired: false,
  strength: "NORMAL",
};
const approval: Approval = {
  runId: "r1",
  projectId: "shop",
  environmentId: "prod",
  runSeq: 1,
  triggeredBy: "ana",
  createdAt: "2026-11-22T03:00:00Z",
  plan: { planId: "nightly", planVersion: "1.5" },
  approval: null,
  actions: [{ ...may, outcome: "REFUSED", reason: "You started this run.", code: "SOD_VIOLATION", mayReject: false }],
};
const task: TaskFieldsFragment = {
  runId: "r2",
  stepId: "check",
  stepName: null,
  logicalAttemptId: 1,
  projectId: "shop",
  environmentId: "dev",
  instructions: "look",
  since: "2026-11-22T02:40:00Z",
  deadline: null,
  token: "t",
  action: { ...may, action: "COMPLETE_MANUAL_STEP" },
};

it("lists waiting items, the longest wait first, with the reason of a refusal, within the project and environment", () => {
  const items = toItems([approval], [task], {});
  expect(items.map((item) => item.name)).toEqual(["check", "nightly@1.5"]);
  expect(items.map((item) => item.refusal)).toEqual([null, "You started this run."]);
  expect(toItems([approval], [task], { env: "prod" }).map((item) => item.key)).toEqual(["r1"]);
});

it("keeps a run for the viewer while a freeze forbids only the approval", () => {
  const actions = [
    { ...may, outcome: "REFUSED" as const, reason: "The tenant is frozen.", code: "TENANT_FROZEN", mayReject: true },
  ];
  const [frozen] = toItems([{ ...approval, actions }], [], {});
  expect(frozen?.refusal).toBe("The tenant is frozen.");
  expect([frozen, toItems([approval], [], {})[0]].map((item) => item && isMine(item))).toEqual([true, false]);
});
