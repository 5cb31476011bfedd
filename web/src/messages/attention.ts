// The first page: what needs attention.
import type { AttentionKind } from "../api/gen/graphql";
import { count, plural } from "../format/format";

export const attention = {
  title: "Needs attention",
  loading: "Loading what needs attention",
  kinds: {
    FAILED_WAITING: "Failed, waiting",
    APPROVAL: "Approval",
    MANUAL_TASK: "Manual step",
    LATE: "Late",
  } satisfies Record<AttentionKind, string>,
  left: (time: string) => `${time} left`,
  over: "time is up",
  lateBy: (time: string) => `late by ${time}`,
  noDeadline: "no deadline",
  ends: {
    FAILED_WAITING: "then the run fails",
    APPROVAL: "then the run is refused",
    MANUAL_TASK: "then the step fails",
    LATE: "longer than 9 of 10 earlier runs",
  } satisfies Record<AttentionKind, string>,
  waiting: (time: string) => `waiting for ${time}`,
  running: (time: string) => `running for ${time}`,
  failed: (step: string, code: string) => (step === "" ? code : `${step}: ${code}`),
  held: (n: number) => `${plural(n, "step")} ${n === 1 ? "waits" : "wait"}`,
  approvals: (given: number, needed: number) => `${given} of ${needed} approvals`,
  youCan: (actions: string) => `You can: ${actions}`,
  notYours: "Waits for someone else",
  more: (n: number) => `${count(n)} or more items need attention. The ones with the least time left are shown.`,
  stale: "dvt cannot read its store. This list may be out of date.",
  none: "Nothing needs you.",
  lastFailed: "The last run that failed ended at",
  neverFailed: "No run has failed yet.",
  toRuns: "All runs",
  failedLately: "Failed in the last 24 hours",
  allFailed: "All that failed",
  inTheList: "Show in the list of runs",
  run: "Run",
  cause: "Cause",
  failedAt: "Failed",
};
