// The queue of runs.
import { plural } from "../format/format";
import type { AttentionKind, QueueWait, SlotScope } from "../api/gen/graphql";

/** A limit that was lowered is exceeded by the runs that had started before. */
function inUse(active: number, max: number): string {
  if (active <= max) return `${active} of ${plural(max, "slot")} in use.`;
  return `${plural(active, "run")} are active, and the limit is ${max}. The limit was lowered while they ran; they continue.`;
}

export const queue = {
  title: "Queue",
  position: "#",
  run: "Run",
  where: "Where",
  by: "Requested by",
  priority: "Priority",
  why: "Reason",
  waited: "Waited",
  estimate: "Estimated wait",
  expires: "Gives up",
  thenFails: "then the run fails",
  timeHeld: "Does not expire now. Its time to wait starts again when the freeze or the mode ends.",
  act: "Cancel",
  unknown: "Unknown",
  afterEnd: (ends: number) => (ends === 1 ? "Until a run ends" : `Until ${ends} runs end`),
  waits: {
    QUOTA: "The quota of starts is used up for now",
    PLACE: "All run slots are in use",
    TURN: "Other runs of this project are ahead of it",
    HOLD: "New runs are on hold; see the banner",
  } satisfies Record<QueueWait, string>,
  holders: "Runs in slots",
  slots: {
    PROJECT: (active: number, max: number, project: string) => `Project ${project}: ${inUse(active, max)}`,
    TENANT: (active: number, max: number) => inUse(active, max),
    INSTALLATION: () => "All run slots of this installation are in use, also by runs of other tenants.",
  } satisfies Record<SlotScope, (active: number, max: number, project: string) => string>,
  startsAfter: (ends: number) =>
    ends === 1
      ? "A waiting run starts when one of these runs ends."
      : `A waiting run starts when ${ends} of these runs have ended.`,
  held: "New runs are on hold; see the banner. These runs continue.",
  slotsMean: "That time cannot be estimated. A run that waits for a person ends only when somebody acts.",
  unblocks: {
    FAILED_WAITING: "Retry or skip its failed step",
    APPROVAL: "Approve it",
    MANUAL_TASK: "Complete its step",
    LATE: "Pause it",
    PAUSED: "Resume it",
  } satisfies Record<AttentionKind | "PAUSED", string>,
  othersResume: "Somebody else must resume it",
  since: "since",
  notStarted: "being started",
  others: (n: number) =>
    `${plural(n, "more run holds a slot that you may not see", "more runs hold slots that you may not see")}.`,
  more: (n: number) => `The ${n} oldest are shown.`,
  depth: (n: string) => `${n} waiting in the tenant`,
  cancel: (run: string) => `Cancel run ${run}`,
  cancelMeans: "The run has not started, so nothing needs to be stopped or cleaned up. It will not start later.",
  givenUp: "Given up in the last 24 hours",
  givenUpMeans:
    "These runs waited for a slot longer than the quotas allow, and failed without a start. Open one to rerun it.",
  empty: "No run is waiting for a quota or a slot.",
};
