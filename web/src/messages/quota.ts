// The page of quotas. It is loaded with the page.
import type { QuotaAction } from "../api/gen/graphql";

export const quota = {
  title: "Quotas",
  tenant: "Whole tenant",
  buckets: "Per minute",
  places: "At once",
  place: "Where",
  used: "Used",
  left: "Left",
  next: "Refills at",
  active: "Active runs",
  waiting: "Waiting runs",
  of: (n: string, most: string) => `${n} of ${most}`,
  actions: { START_RUN: "starts", HEAVY_STEP: "heavy steps", SIGNAL: "signals" } satisfies Record<QuotaAction, string>,
  tier: (tier: string, version: number) =>
    version === 0
      ? `The limits of the tier ${tier} apply.`
      : `Version ${version} of this tenant's settings applies. All other limits come from the tier ${tier}.`,
  notYours: "Your role may not read the quota settings.",
  limits: {
    startRunPerMinute: "Starts per minute",
    heavyStepsPerMinute: "Heavy steps per minute",
    signalOpsPerMinute: "Signals per minute",
    maxActive: "Active runs",
    maxQueueDepth: "Waiting runs",
  },
  ofTier: (most: string) => `${most} (tier)`,
  inherit: "An empty field inherits the tier's limit.",
  weight: "Weight",
  project: "a project",
  projectOf: (id: string) => (id === "" ? "the project" : `project ${id}`),
  projects: "Projects",
  strategy: "When a limit is reached",
  strategies: { "": "As the installation", QUEUE: "Runs wait", REJECT: "Runs are refused", DELAY: "Runs are delayed" },
  ttl: "Longest wait, in seconds",
  full: "all in use",
  noHistory: "This tenant has no settings of its own. Its tier's limits apply.",
  editing: (version: number) => (version === 0 ? "Edit quotas" : `Edit quotas (version ${version})`),
};
