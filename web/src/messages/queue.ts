// What waits for its start.
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
    QUOTA: "Its tenant or project has started as many runs as it may for now.",
    PLACE: "As many runs are active as may be at once.",
    TURN: "Others of its project wait before it.",
    HOLD: "dvt or its tenant starts nothing new now; see the banner.",
  } satisfies Record<QueueWait, string>,
  depth: (n: string) => `${n} waiting in the tenant`,
  cancel: (run: string) => `Cancel run ${run}`,
  cancelMeans:
    "It has not begun, so nothing is stopped and nothing is left behind. A cancelled run is not started later.",
  empty: "No run waits for a quota or a free place.",
};
