// Tokens, policy, quotas and the service.
import type { EngineMode, QuotaAction } from "../api/gen/graphql";
import { plural } from "../format/format";

export const admin = {
  title: "Admin",
  parts: { tokens: "Tokens", policy: "Policy", quotas: "Quotas", service: "Service" },
  reason: "Reason (required)",
  edit: "Edit",
  save: "Save",
  document: "The whole document, as JSON",
  unchanged: "Nothing was changed.",
  changes: (n: number) => plural(n, "change"),
};

export const tokens = {
  title: "API tokens",
  name: "Name",
  principal: "Rights of",
  grants: "At most",
  created: "Made",
  expires: "Expires",
  used: "Last used",
  state: "State",
  never: "never",
  revoked: "revoked",
  expired: "expired",
  revoke: "Revoke",
  revokeMeans:
    "Requests with this token are refused on every server within 2 s, and its streams end. This cannot be undone.",
  everybody: "Show everybody's",
  make: "Make a token",
  role: "Role, at most",
  project: "Project (*: every)",
  environment: "Environment (*: every)",
  service: "For a service: its name (else it is your own)",
  until: "Expires on (else in 90 days)",
  once: "Keep it now: it is shown this once and stored nowhere.",
  shownBefore: "It was shown before and cannot be shown again.",
  copy: "Copy",
  kept: "I have kept it",
  empty: "No tokens. Scripts and services sign in with one.",
};

export const policy = {
  title: "Policy",
  named: (version: number) => `Policy, version ${version}`,
  grants: "Who has which role",
  principal: "Principal",
  role: "Role",
  where: "Where",
  until: "Until",
  everywhere: "everywhere",
  scope: (project: string, environment: string) =>
    `${project === "*" ? "every project" : project} / ${environment === "*" ? "every environment" : environment}`,
  breakGlassGrant: "by break-glass",
  action: "Action",
  rules: (n: number) => `${plural(n, "rule")} of the tenant's own`,
  defaultRules: (n: number) => `${plural(n, "rule")}, the defaults of this version of dvt`,
  duties: "Separation of duties, approval, break-glass",
  sodApprove: "The person who asked for a run may not approve it.",
  noSodApprove: "The person who asked for a run may approve it.",
  sodComplete: "A person who asked for or approved a run may not complete its manual steps.",
  sodCompleteAlways: "A plan cannot lift this by sod: false.",
  noSodComplete: "The person who asked for a run may complete its manual steps.",
  approvals: (place: string, required: number) =>
    `Runs of ${place} start when ${plural(required, "person has", "people have")} approved them.`,
  breakGlass: (principal: string, role: string, minutes: number) =>
    `${principal} may take the role ${role} by break-glass for at most ${plural(minutes, "minute")}.`,
  history: "Versions",
  version: "Version",
  by: "By",
  at: "At",
  reason: "Reason",
  whoCan: "Who could",
  on: "On a project/environment, or on a run (its whole id)",
  ask: "Ask",
  who: (action: string, names: string) => (names === "" ? `Nobody could: ${action}.` : `${action}: ${names}.`),
  noHistory: "The tenant has no policy of its own; the server's settings hold.",
  editing: (version: number) => `Change version ${version} of the policy`,
};

export const quota = {
  title: "Quotas",
  tenant: "whole tenant",
  buckets: "Per minute",
  places: "At once",
  place: "Where",
  used: "Used",
  left: "Left",
  next: "Next token",
  active: "Active runs",
  waiting: "Waiting runs",
  of: (n: string, most: string) => `${n} of ${most}`,
  actions: { START_RUN: "starts", HEAVY_STEP: "heavy steps", SIGNAL: "signals" } satisfies Record<QuotaAction, string>,
  tier: (tier: string, version: number) =>
    `Tier ${tier}; ${version === 0 ? "its limits hold as they are" : `version ${version} of the tenant's own settings`}.`,
  notYours: "Your role may not read the settings of the quotas.",
  editing: (version: number) => `Change version ${version} of the quotas`,
};

export const service = {
  title: "Service",
  mode: "Mode of the installation",
  tenant: "This tenant",
  since: "since",
  already: "This is set already.",
  modes: { NORMAL: "Normal", READ_ONLY: "Read-only", DRAINED: "Drained" } satisfies Record<EngineMode, string>,
  means: {
    NORMAL: "Runs start, and everything is published.",
    READ_ONLY: "No new run starts and nothing is published; pages read the store. Runs in progress continue.",
    DRAINED:
      "No new run starts; runs in progress continue to their end. When none is active, the installation may be stopped.",
  } satisfies Record<EngineMode, string>,
  setMode: (mode: string) => `Set to ${mode}`,
  active: (n: number) => `${plural(n, "run is", "runs are")} active in the installation.`,
  frozen: "Frozen",
  notFrozen: "Not frozen",
  freeze: "Freeze the tenant",
  unfreeze: "Lift the freeze",
  freezeMeans: "No new run starts in this tenant. Runs in progress continue, and queued runs go on waiting.",
  unfreezeMeans: "Runs start again, the queued ones first.",
};

export const breakGlass = {
  open: "Break glass",
  title: "Break-glass",
  means:
    "You take a role on the whole tenant for some minutes. It is recorded in the audit with your reason, and ends by itself.",
  minutes: (most: number) => `Minutes (at most ${most})`,
  take: (role: string) => `Take the role ${role}`,
  cancel: "Cancel",
  left: (roles: string, left: string) => `Break-glass: ${roles}, ${left} left`,
  end: "End now",
};
