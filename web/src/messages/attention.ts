// The first page: what needs attention.
import type { Action, AttentionKind, Decision } from "../api/gen/graphql";
import { count, plural } from "../format/format";

/** "ana, ben, cem and 2 more". */
function names(of: readonly string[]): string {
  return of.length <= NAMED ? of.join(", ") : `${of.slice(0, NAMED).join(", ")} and ${of.length - NAMED} more`;
}

const NAMED = 3;

export const attention = {
  waits: (n: number) => `${n >= 100 ? "100 or more" : n} ${n === 1 ? "item needs" : "items need"} attention`,
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
    APPROVAL: "then the run is cancelled",
    MANUAL_TASK: "then the step fails",
    LATE: "longer than 9 of 10 earlier runs",
  } satisfies Record<AttentionKind, string>,
  missed: "missed its deadline",
  waiting: (time: string) => `waiting for ${time}`,
  running: (time: string) => `running for ${time}`,
  failed: (step: string, code: string) => (step === "" ? code : `${step}: ${code}`),
  held: (n: number, needing: number) => {
    const waits = `${plural(n, "step")} ${n === 1 ? "waits" : "wait"}`;
    if (needing === 0) return waits;
    if (needing >= n) return `${waits}, ${n === 1 ? "and needs" : "and all need"} this one`;
    return `${waits}, and ${count(needing)} of them ${needing === 1 ? "needs" : "need"} this one`;
  },
  failedSteps: (n: number) => `${count(n)} steps failed`,
  approvals: (given: number, needed: number) => `${given} of ${needed} approvals`,
  /** The words of the buttons. */
  short: {
    RETRY_STEP: "Retry",
    SKIP_STEP: "Skip",
    APPROVE: "Approve",
    COMPLETE_MANUAL_STEP: "Complete",
    PAUSE: "Pause",
    CANCEL: "Cancel run",
  },
  named: (verb: string, subject: string) => `${verb} ${subject}`,
  /** The event that ends the wait of each kind. */
  answers: {
    FAILED_WAITING: { action: "RETRY_STEP", verb: "retry" },
    APPROVAL: { action: "APPROVE", verb: "approve" },
    MANUAL_TASK: { action: "COMPLETE_MANUAL_STEP", verb: "complete" },
    LATE: { action: "PAUSE", verb: "pause" },
  } satisfies Record<AttentionKind, { action: Action; verb: string }>,
  waitsFor: (who: readonly string[]) => `Waits for ${names(who)}`,
  ask: (verb: string, who: readonly string[]) => `To ${verb} it, ask ${names(who)}`,
  nobody: {
    FAILED_WAITING: "Nobody may retry it. It waits until the policy changes.",
    APPROVAL: "Nobody can approve it: change the policy, or cancel the run.",
    MANUAL_TASK: "Nobody may complete it. It waits until the policy changes.",
    LATE: "Nobody may pause it.",
  } satisfies Record<AttentionKind, string>,
  /** Fewer people can approve than must; `mine`: the viewer is the only one. */
  stuck: (who: readonly string[], mine: boolean) =>
    who.length === 0 && !mine
      ? attention.nobody.APPROVAL
      : `Only ${mine ? "you" : names(who)} can approve, which is not enough: change the policy, or cancel the run.`,
  sent: (action: string) => `${action}: sent`,
  failedAgain: "it failed again",
  decided: { APPROVE: "You have approved the run.", REJECT: "You have rejected the run." } satisfies Record<
    Decision,
    string
  >,
  others: (n: number, kinds = "") => `Show ${count(n)} more${kinds === "" ? "" : `: ${kinds}`}`,
  counted: {
    FAILED_WAITING: (n: number) => `${count(n)} failed`,
    APPROVAL: (n: number) => plural(n, "approval"),
    MANUAL_TASK: (n: number) => plural(n, "manual step"),
    LATE: (n: number) => `${count(n)} late`,
  } satisfies Record<AttentionKind, (n: number) => string>,
  othersOnly: (n: number, who: readonly string[]) =>
    `Show ${count(n)} that ${n === 1 ? "waits" : "wait"} for ${names(who)}`,
  firstEnds: (left: string) => `, the first ends in ${left}`,
  fewer: "Show fewer",
  more: (n: number) => `${count(n)} or more items need attention. The ones with the least time left are shown.`,
  stale: "dvt cannot read its store. This list may be out of date.",
  none: "Nothing waits for a person now.",
  yetFailed: (n: number) =>
    `${plural(n, "run")} failed in the last 24 hours and ${n === 1 ? "has" : "have"} ended: see below.`,
  lastFailed: "The last run that failed:",
  neverFailed: "No run has failed yet.",
  toRuns: "All runs",
  failedLately: "Failed in the last 24 hours",
  /** Runs that a later rerun replaced are counted apart: the list of runs has them too. */
  failedCount: (n: number, more: boolean, rerun: number) =>
    `${count(n)}${more ? "+" : ""} failed in 24 h${rerun > 0 ? `, ${count(rerun)} more rerun since` : ""}`,
  newest: (n: number) => `Counted in the newest ${plural(n, "failed run")}. More runs failed.`,
  inTheList: "Show in the list of runs",
  cause: "Cause",
  runs: "Runs",
  times: (n: number, rerun: number) =>
    rerun === 0 ? plural(n, "run") : `${plural(n, "run")}, ${count(rerun)} left out: rerun since`,
  failedAt: "Last failure",
  recovered: "a newer run succeeded",
  next: "Next",
  rerun: (n: number) => (n === 1 ? "Rerun" : `Rerun ${count(n)}`),
  open: "Open",
};
