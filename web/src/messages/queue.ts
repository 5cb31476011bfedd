// The queue of runs.
import type { QueueWait } from "../api/gen/graphql";

export const queue = {
  title: "Queue",
  position: "#",
  run: "Run",
  where: "Where",
  by: "Asked by",
  priority: "Priority",
  why: "Why it waits",
  waited: "Waited",
  estimate: "Estimated wait",
  expires: "Gives up at",
  act: "Cancel",
  unknown: "not known",
  waits: {
    QUOTA: "The quota of its tenant or project is used up for now.",
    PLACE: "The limit of active runs is reached.",
    TURN: "Other runs of its project wait before it.",
    HOLD: "dvt or its tenant starts no new runs now; see the banner.",
  } satisfies Record<QueueWait, string>,
  depth: (n: string) => `${n} waiting in the tenant`,
  cancel: (run: string) => `Cancel run ${run}`,
  cancelMeans: "The run has not started, so nothing is stopped or left behind. A cancelled run is not started later.",
  empty: "No run waits for a quota or a free place.",
};
