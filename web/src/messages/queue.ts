// The queue of runs.
import { plural } from "../format/format";
import type { QueueWait, SlotScope } from "../api/gen/graphql";

/** A limit that was lowered is exceeded by the runs that had started before. */
function inUse(active: number, max: number): string {
  if (active <= max) return `${active} of ${plural(max, "slot")} in use.`;
  const over = active - max;
  return `${plural(active, "run")} are active, and the limit is ${max}. It was lowered while they ran; they go on, and the next run starts when ${over + 1} of them have ended.`;
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
  timeHeld: "Not before the freeze or the mode ends; its time to wait starts again then",
  act: "Cancel",
  unknown: "Unknown",
  afterEnd: "Until a run ends",
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
  slotsMean:
    "A waiting run starts when one of these runs ends; that time cannot be estimated. A run that waits for a person ends only when somebody acts.",
  unblocks: {
    AWAITING_OPERATOR: "Retry or skip its failed step",
    WAITING_MANUAL: "Complete its step",
    PAUSED: "Resume it",
  },
  since: "since",
  notStarted: "being started",
  others: (n: number) =>
    `${plural(n, "more run holds a slot that you may not see", "more runs hold slots that you may not see")}.`,
  more: (n: number) => `The ${n} oldest are shown.`,
  depth: (n: string) => `${n} waiting in the tenant`,
  cancel: (run: string) => `Cancel run ${run}`,
  cancelMeans: "The run has not started, so nothing needs to be stopped or cleaned up. It will not start later.",
  empty: "No run is waiting for a quota or a slot.",
};
