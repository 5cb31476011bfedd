// Actions, refusals and receipts.
import type { Action, ActionOutcome, AlertLevel, Decision, Role } from "../api/gen/graphql";
import { plural } from "../format/format";

export const action = {
  READ: "Read",
  START: "Start",
  PAUSE: "Pause",
  RESUME: "Resume",
  RETRY_STEP: "Retry step",
  SKIP_STEP: "Skip step",
  UPDATE_PARAMS: "Change parameters",
  INJECT_OVERRIDE: "Override inputs",
  UPDATE_TARGET: "Change target",
  ESCALATE_ALERT: "Raise alert",
  EMERGENCY_STOP: "Emergency stop",
  CANCEL: "Cancel run",
  RERUN: "Rerun",
  COMPLETE_MANUAL_STEP: "Complete step",
  ANNOTATE: "Annotate",
  APPROVE: "Approve",
  READ_DEAD_LETTERS: "Read dead letters",
  READ_AUDIT: "Read the audit",
  REDRIVE: "Redrive",
  READ_POLICY: "Read the policy",
  SET_POLICY: "Set the policy",
  CREATE_TOKEN: "Create a token",
  MANAGE_TOKENS: "Manage tokens",
  SET_QUOTA: "Set the quotas",
  FREEZE_TENANT: "Freeze the tenant",
  SET_ENGINE_MODE: "Set the mode of the installation",
  DEBUG: "See the details of the installation",
} satisfies Record<Action, string>;

export const role = {
  VIEWER: "Viewer",
  OPERATOR: "Operator",
  ENGINEER: "Engineer",
  ADMIN: "Admin",
  PLANNER: "Planner",
  SYSTEM: "System",
  SRE: "SRE",
} satisfies Record<Role, string>;

export const confirm = {
  title: (action: string, subject: string) => `${action} ${subject} in`,
  alreadyRerun: "This run was rerun already, and the same work would run twice: ",
  asking: "Checking what this would do…",
  outcome: {
    APPLY: "It takes effect.",
    NOOP: "It would change nothing.",
    REFUSED: "It would be refused.",
    UNSUPPORTED: "This engine does not support it.",
  } satisfies Record<ActionOutcome, string>,
  moreParams: (n: number) => `and ${plural(n, "more parameter")}`,
  moreChanges: (n: number) => `and ${plural(n, "more step")}`,
  blocked: (n: number, names: string) =>
    n === 1 ? `This step will not start: ${names}.` : `These ${n} steps will not start: ${names}.`,
  newRun: "Result: a new run starts.",
  newRunWaits: "Result: a new run is created, and waits.",
  pending: "Result: the run still waits for approval.",
  result: (word: string) => `Result: the run is ${word}.`,
  rerun: (again: number, kept: number) =>
    `${plural(again, "step runs", "steps run")} again, ${plural(kept, "result is", "results are")} kept.`,
  runsAgain: (names: string, more: number) => `Run again: ${names}${more > 0 ? ` and ${more} more` : ""}.`,
  keeps: (names: string, more: number) => `Kept: ${names}${more > 0 ? ` and ${more} more` : ""}.`,
  noPreview: "dvt cannot say now what this would do, so it cannot be sent. Try again in a moment.",
  noPreviewStop: "dvt cannot say now what this would do. Stopping is still allowed.",
  sameAgain: "It may have arrived. Sending it again has no second effect.",
  otherwise: "The effect of this action has changed. Read the preview again before you send; your input is kept.",
  wait: (left: string) => `Wait ${left}`,
  force: "Force: retry although the policy says no (audited)",
  patch: { UPDATE_PARAMS: "Parameters to change", INJECT_OVERRIDE: "Inputs to change" },
  patchHint: "a JSON object; null removes a member",
  patchMissing: "Say what to change, as a JSON object.",
  patchObject: 'This must be a JSON object, such as {"day": "2026-11-21"}.',
  notJson: "This is not JSON:",
  targetMissing: "Name a database or a schema.",
  database: "Database",
  schema: "Schema",
  level: "Level",
  levels: { LOW: "Low", MEDIUM: "Medium", HIGH: "High" } satisfies Record<AlertLevel, string>,
  how: "How to stop",
  stops: {
    graceful: "Graceful: the engine stops what is in flight, and the log says how each attempt ended.",
    force: "Force: the engine's execution is ended at once. Attempts in flight may continue outside for a while.",
  },
  again: "Steps to run again",
  from: {
    failed: "The steps that did not succeed, and their dependents",
    step: "From one step: it, its dependents, and the steps that did not succeed",
    start: "Everything, from the start",
  },
  nothingFailed: "Every step of this run succeeded.",
  fromStep: "First step to run again",
  stepMissing: "Name the step to run again.",
  params: "Parameters of the new run",
  ownAgain: "Keep those of this run",
  correctParams: "Correct the parameters below. The preview follows.",
  hiddenParam: "A value is hidden here as ***. Write it, or keep the parameters of the run.",
  paramChanged: (name: string, from: string, to: string) => `${name} changes from ${from} to ${to}`,
  paramAdded: (name: string, value: string) => `${name} is added: ${value}`,
  paramRemoved: (name: string, value: string) => `${name} is removed (was ${value})`,
  paramsSame: "The parameters are those of this run.",
  decisions: {
    APPROVE: "Approve: the run starts when all approvals are given",
    REJECT: "Reject: the run is cancelled for good",
  } satisfies Record<Decision, string>,
  evidence: "Evidence",
  evidenceHint: "web addresses, one per line",
  evidenceAsked: (what: string) => `asked for: ${what}`,
  taskGone: "This step no longer waits for a person, or not for you.",
  basedOn: (seq: number) => `If sent now (as of seq ${seq}):`,
  refused: (action: string) => `${action}: not available to you`,
  reason: "Reason",
  reasonHint: "kept in the audit",
  reasonRequired: "A reason is required.",
  required: "required",
  typeToConfirm: (word: string) => `Type ${word} to confirm`,
  back: "Cancel",
  keep: "Keep running",
  reject: "Reject",
  sending: "Sending…",
  reviewAgain: "Review again",
  moved: (from: number, to: number) =>
    `Nothing was sent. The run changed between seq ${from}, which you had read, and seq ${to}. Your input is kept.`,
  stopWhileStale: (age: string) => `Your view is ${age} old. Stopping is still allowed.`,
  notNow: "This is no longer possible:",
  /** The loss that the cancellation of a run is. */
  lost: (never: number, kept: number) =>
    [
      never > 0 ? `${plural(never, "step")} will never start.` : null,
      kept > 0 ? `The results of ${plural(kept, "step")} stay, and a rerun can use them.` : null,
    ]
      .filter((part) => part !== null)
      .join(" "),
  held: (n: number) => `A failed step already holds ${plural(n, "step")}: nothing new starts.`,
  windowStops: (length: string) =>
    `The retry window stops while the run is paused. Resuming opens a new one of ${length}.`,
  windowOpens: (length: string) => `A new retry window of ${length} opens for the failed steps.`,
};

/** The roles that have a right by the server's default policy, when it is not Admin alone, and the right in words. */
const RIGHTS: Partial<Record<Action, { role?: Role; sre?: true; to: string }>> = {
  START: { role: "OPERATOR", to: "start a run" },
  CANCEL: { role: "ENGINEER", to: "cancel a run" },
  RERUN: { role: "ENGINEER", to: "rerun a run" },
  ANNOTATE: { role: "OPERATOR", to: "tag a run, write a note, or acknowledge or silence an alert" },
  READ_AUDIT: { sre: true, to: "read the audit log" },
  READ_DEAD_LETTERS: { sre: true, to: "read dead letters" },
  REDRIVE: { sre: true, to: "redrive dead letters" },
  READ_POLICY: { to: "read the policy" },
  SET_POLICY: { to: "change the policy" },
  CREATE_TOKEN: { role: "VIEWER", to: "create a token" },
  MANAGE_TOKENS: { to: "manage tokens" },
  SET_QUOTA: { to: "change the quotas" },
  FREEZE_TENANT: { sre: true, to: "freeze the tenant" },
  SET_ENGINE_MODE: { role: "SRE", to: "change the mode" },
  DEBUG: { role: "SRE", to: "see the details of the installation" },
};

/** The number of names in a refusal; the others are counted. */
const NAMED = 3;

export const denied = {
  noAnswer: "Checking what you may do…",
  offline: "Nothing can be sent: there is no connection to dvt.",
  stale: (age: string) => `Off while this view may be out of date (${age} old).`,
  past: "Off while an earlier moment is shown. Press Shift+L to go back to now.",
  draining: (n: number) => `Waiting for ${plural(n, "running step")} to finish: nothing new starts before.`,
  policy: (version: number) => `Decided by ${version === 0 ? "the server's own policy" : `policy version ${version}`}.`,
  copyRequest: "Copy request",
  request: (action: string, subject: string, url: string, why: string) =>
    `Could you do this for me? ${action}: ${subject}\n${url}\n${why}`,
  catchingUp: (seq: number) => `Waiting for the page to show seq ${seq}, where your last signal took effect.`,
  inFlight: "Your last signal has not taken effect yet.",
  notYours: (right: Action) => {
    const { role: needed = "ADMIN", sre = false, to } = RIGHTS[right] ?? { to: action[right].toLowerCase() };
    return `You need the ${role[needed]}${sre ? ` or the ${role.SRE}` : ""} role to ${to}.`;
  },
  needs: (role: string) => `Needs ${role}.`,
  /** Names a few of those who can do it: a list of ten does not fit beside a button. */
  could: (names: readonly string[], more = false) => {
    const rest = names.length - NAMED;
    if (rest <= 0) return `Who can do this: ${names.join(", ")}${more ? " and others" : ""}.`;
    const others = more ? "others" : plural(rest, "other");
    return `Who can do this: ${names.slice(0, NAMED).join(", ")} and ${others}.`;
  },
  noop: "It would change nothing.",
  unsupported: "Not supported by this engine.",
};

export const receipt = {
  tray: "Receipts",
  more: (n: number) => `and ${n} more`,
  empty: "Nothing yet. What you send to runs, decide and change is listed here.",
  ACCEPTED: "Accepted",
  recorded: "Recorded",
  DELIVERED: "Delivered",
  APPLIED: "Applied",
  NOOP: "No effect needed",
  already: "the run was already in this state",
  NOT_APPLIED: "Not applied",
  REJECTED: "Rejected",
  quiet: "Quiescent",
  id: "Signal id",
  health: "Check Health",
  after: (time: string) => `after ${time}`,
  atSeq: (seq: number) => `at seq ${seq}`,
  quiescent: (seq: number) => `nothing is running since seq ${seq}`,
  applying: "applying…",
  slow: "Accepted and durable. The engine has not picked it up yet; you may close this page.",
  dismiss: "Dismiss",
  dismissAll: "Dismiss all refused",
  fresh: "new",
  refusedWord: "refused",
  refused: (n: number) => `${plural(n, "signal")} refused`,
  inAudit: "In the audit",
  versions: (before: number, after: number) =>
    before === 0 ? `version ${after}` : `version ${before} → version ${after}`,
  toRun: (id: string) => `Run ${id}`,
  policySaved: "Saved the policy",
  quotasSaved: "Saved the quotas",
  modeSet: (mode: string) => `Set the mode to ${mode}`,
  froze: "Froze the tenant",
  unfroze: "Unfroze the tenant",
  tokenCreated: (name: string) => `Created the token ${name}`,
  tokenRevoked: (name: string) => `Revoked the token ${name}`,
  tookRole: (role: string) => `Took the ${role} role by break-glass`,
  endedRole: "Ended break-glass",
  tagged: (run: string) => `Changed the tags of run ${run}`,
  noted: (run: string) => `Added a note to run ${run}`,
  viewShared: (name: string, project: string) => `Shared the view ${name} with ${project}`,
  viewRemoved: (name: string) => `Removed the shared view ${name}`,
  reran: (run: string, newRun: string) => `Reran ${run} as ${newRun}`,
  decided: {
    APPROVE: (run: string) => `Approved ${run}`,
    REJECT: (run: string) => `Rejected ${run}`,
  } satisfies Record<Decision, (run: string) => string>,
  followed: {
    running: "running again",
    waits: "waits for its turn",
    failed: (took: string | null) => (took === null ? "failed again" : `failed again after ${took}`),
    succeeded: (took: string | null) => (took === null ? "succeeded" : `succeeded after ${took}`),
    skipped: "the step is skipped",
    completed: "the step has succeeded",
    completedFailed: "the step has failed",
    paused: "the run is paused, nothing is running",
    draining: (n: number) => `pausing: ${plural(n, "step is", "steps are")} still running`,
    resumed: "the run is running",
    stopping: "stopping",
    cancelled: "the run is cancelled",
  },
  by: (actor: string) => `by ${actor}`,
};

export const menu = {
  title: "Actions",
  run: "This run",
  ofStep: (id: string) => `Actions on ${id}`,
  close: "Close",
  retryFailed: (n: number) => `Retry all ${n} failed steps`,
  unavailable: (names: string) => `Not available: ${names}`,
};
