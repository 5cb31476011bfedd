// The differences between a plan and that of the run before, and the reference of a run to its plan. They are loaded
// with the details of a run.
import type { PlanChange } from "../api/gen/graphql";
import { count, plural } from "../format/format";

export const planDiff = {
  title: "Changes to the plan",
  none: "There is no earlier run of this plan here to compare with.",
  to: (version: string) => `diff to ${version}`,
  ofRun: "run",
  /** "2 steps added, 1 changed"; without one, something beside the steps differs. */
  counts: (added: number, removed: number, changed: number) => {
    const parts = Object.entries({ added, removed, changed }).filter(([, n]) => n > 0);
    return parts.length === 0
      ? "No step differs"
      : parts.map(([word, n], i) => `${i === 0 ? plural(n, "step") : count(n)} ${word}`).join(", ");
  },
  same: "The plan is the same.",
  sign: { ADDED: "+", REMOVED: "−", CHANGED: "~" } satisfies Record<PlanChange, string>,
  change: { ADDED: "added", REMOVED: "removed", CHANGED: "changed" } satisfies Record<PlanChange, string>,
  nothing: "not set",
  more: (n: number) => `and ${plural(n, "more step")}`,
};

export const reference = {
  schema: "Plan schema",
  deprecated: (version: string, end: string) => `${version} is deprecated: dvt reads it until ${end}`,
  uri: "Plan address",
  mirrors: "Mirrors of the plan",
  answeredBy: "Plan came from",
  compression: "Plan compression",
  expires: "Plan reference expires",
  evolution: "Schema evolution",
  migration: "Migration",
  migrates: (from: string, to: string, script: string | null) =>
    `${from} to ${to}${script === null ? "" : ` by ${script}`}`,
};
