// Items that wait for people.
import type { Decision, ManualOutcome } from "../api/gen/graphql";
import { plural } from "../format/format";
import { planDiff } from "./planDiff";

const next = {
  SUCCEEDED: "completed as succeeded. The steps that wait for it start now.",
  FAILED: "completed as failed. The steps that depend on it do not start; the run continues as after any failed step.",
  CANCELLED: "completed as cancelled. The steps that depend on it do not start.",
} satisfies Record<ManualOutcome, string>;

export const inbox = {
  title: "Inbox",
  waits: (n: number) => `${plural(n, "item")} waiting for you`,
  loading: "Loading the inbox",
  decide: "Decision",
  parts: { me: "For me", all: "All", done: "Done" },
  kinds: { approval: "Approve", task: "Manual step" },
  yes: { approval: "Approve", task: "Complete" },
  no: { approval: "Reject", task: "Fail" },
  requestedBy: (who: string) => `· requested by ${who}`,
  waitingFor: (time: string) => `waiting for ${time}`,
  timesOut: "times out",
  approvals: (n: number, of: number, who: string) =>
    `${n} of ${plural(of, "approval")}${who === "" ? "" : ` (${who})`}`,
  stuck: "Nobody else can give the missing approval. The run cannot start unless the policy changes.",
  expires: (left: string) => `cancelled in ${left} unless approved`,
  expired: "the time to approve it is over",
  none: "Nothing is waiting for a person in the projects that you may see.",
  noneForMe: "Nothing is waiting for you.",
  some: (n: number, more: boolean) => (more ? `${n}+` : String(n)),
  othersWait: (n: number) => `${plural(n, "item is", "items are")} waiting for someone else. See All.`,
  noneDone: "You have not approved, rejected or completed anything recently.",
  decisions: "Approval history is in the",
  named: (verb: string, subject: string) => `${verb}: ${subject}`,
  outcomeLabel: "Outcome",
  outcome: { SUCCEEDED: "Succeeded", FAILED: "Failed", CANCELLED: "Cancelled" } satisfies Record<ManualOutcome, string>,
  decided: { APPROVE: "Approved", REJECT: "Rejected" } satisfies Record<Decision, string>,
  /** What became of a run that the viewer approved. */
  became: {
    waiting: (n: number, of: number) =>
      `${n} of ${plural(of, "approval")}; ${plural(of - n, "more person", "more people")} must approve`,
    approved: (of: number) => `${of} of ${plural(of, "approval")}: the run starts`,
    rejected: (who: string) => `rejected by ${who}: the run is cancelled`,
    ended: "the run ended before it was approved",
  },
  /** The run's next step after a person completed a manual step. */
  completed: (step: string, outcome: ManualOutcome) => `${step}: ${next[outcome]}`,
  steps: (n: number) => plural(n, "step"),
  stepsUnknown: "The plan is fetched when the run starts; its steps are not known yet.",
  change: (version: string, added: number, removed: number, changed: number) =>
    `compared with ${version}: ${planDiff.counts(added, removed, changed)}`,
  firstRun: "no earlier run of this plan here",
  unchanged: (version: string) => `the same steps as ${version}`,
  toPlan: "Open the plan",
  params: "Parameters",
};
