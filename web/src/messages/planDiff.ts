// The differences between a plan and that of the run before.
import type { PlanChange } from "../api/gen/graphql";
import { count, plural } from "../format/format";

export const planDiff = {
  title: "Changes to the plan",
  none: "There is no earlier run of this plan here to compare with.",
  to: (version: string) => `diff to ${version}`,
  ofRun: "run",
  counts: (added: number, removed: number, changed: number) => `+${count(added)} −${count(removed)} ~${count(changed)}`,
  same: "The plan is the same.",
  sign: { ADDED: "+", REMOVED: "−", CHANGED: "~" } satisfies Record<PlanChange, string>,
  change: { ADDED: "added", REMOVED: "removed", CHANGED: "changed" } satisfies Record<PlanChange, string>,
  nothing: "nothing",
  more: (n: number) => `and ${plural(n, "more step")}`,
};
