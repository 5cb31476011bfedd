// The pages of plans and of their steps.
import type { PlanNext } from "../api/gen/graphql";
import { count, plural } from "../format/format";

export const plans = {
  title: "Plans",
  plan: "Plan",
  where: "Where",
  lastRuns: "Last runs",
  rate: "Success rate",
  typical: "Typical work",
  open: "Now",
  lastRun: "Last run",
  next: "Next",
  filter: "Filter plans by name",
  empty: "No plan has run here yet.",
  needSomebody: (n: number, more: boolean) =>
    `${n === 1 ? "1 plan needs" : `${count(n)} plans need`} somebody${more ? ", of those below" : ""}`,
  noMatch: "No plan with a run has this text in its name.",
  start: "Start a run",
  openLast: "Open the last run",
  none: "No run of this plan exists here, or you cannot see it.",
  noneCalled: (plan: string) => `No run of the plan ${plan} exists, or you cannot see it.`,
  noneMeans: "A plan is listed after its first run.",
  several: (plan: string, n: number) => `${plan} runs in ${count(n)} environments. Choose one:`,
  toPlans: "All plans",
  nexts: {
    RETRY: "Retry a failed step",
    COMPLETE: "Complete a manual step",
    APPROVE: "Approve a run",
    RESUME: "Resume a run",
    WATCH: "Watch the run",
    RERUN: "Open the failed run",
    START: "Start a run",
  } satisfies Record<PlanNext, string>,
  percent: (rate: number) => `${Math.round(rate * 100)} %`,
  rateOf: (succeeded: number, ended: number) =>
    `${count(succeeded)} of ${plural(ended, "run")} that succeeded or failed`,
  /** Runs that have not ended; some of them wait for a person. */
  openRuns: (open: number, waiting: number) => {
    const active = open >= 100 ? "100+" : count(open - waiting);
    if (open === 0) return "nothing active";
    if (waiting === 0) return `${active} active`;
    return open === waiting ? `${count(waiting)} waiting` : `${active} active, ${count(waiting)} waiting`;
  },
  failedBefore: "the run before failed",
  slower: "slower lately",
  faster: "faster lately",
  recent: (took: string) => `the newest 5 took ${took}`,
  typicalMeans: "The time in which steps ran, without waits for people, pauses and the queue.",
  withWaits: (took: string) => `${took} with waits`,
  cell: (status: string, took: string, run: string) => `${status}${took === "" ? "" : `, ${took}`}, run ${run}`,
  durations: (n: number) =>
    `${n === 1 ? "Work of the last run" : `Work of the last ${count(n)} runs`}, without waits for people and pauses`,
  workOf: (work: string, took: string) => (work === took ? took : `${work} of work, ${took} with waits`),
  since: "since",
  sameVersion: (version: string, n: number) =>
    `Version ${version} has ${n} different contents: the plan was changed and its version was not. Two runs of ${version} may do different things. Increase planVersion with each change.`,
  waitsForApproval: "Waiting for approval",
  median: "Median",
  p90: "90 % within",
  grid: "Steps of the last runs",
  gridMeans:
    "One row for each step, one column for each run, the newest on the right. A line below a cell: more than one attempt. Arrow keys move between cells.",
  step: "Step",
  legend: "Legend",
  kept: "Kept from an earlier run",
  absent: "not in the plan of this run",
  leftOut: (n: number) => `${plural(n, "run")} left out: the grid shows at most 20,000 cells.`,
  allSteps: (n: number) => `Show all ${count(n)} steps`,
  retried: (attempts: number) => `${attempts} attempts`,
  versions: "Versions",
  version: "Version",
  used: (n: number) => plural(n, "run"),
  from: "first used",
  until: "last used",
  changes: (older: string) => `Changes since ${older}`,
  noDocument: "The document of one of the versions is not known.",
  starters: "Who runs it",
  counted: (n: number, more: boolean) =>
    more
      ? `Versions and people of the newest ${count(n)} runs of this plan.`
      : n === 1
        ? "Versions and people of the only run of this plan."
        : `Versions and people of all ${count(n)} runs of this plan.`,
  stepOf: "step of",
  stepNone: "This step started no attempt in the newest runs of its plan, or you cannot see the plan.",
  attempts: (n: number) => (n === 1 ? "Duration of the last attempt" : `Durations of the last ${count(n)} attempts`),
  ran: (succeeded: number, ran: number, runs: number) =>
    ran === runs
      ? `succeeded in ${count(succeeded)} of the last ${plural(runs, "run")}`
      : `succeeded in ${count(succeeded)} of the ${plural(ran, "run")} that reached it; the plan ran ${count(runs)} times`,
  retriesHead: "Retries",
  flaky: (n: number) => (n === 0 ? "never needed to succeed" : `needed to succeed in ${plural(n, "run")}`),
  cause: "Cause",
  attemptsHead: "Its newest attempts",
  allAttempts: (n: number) => `Show all ${count(n)} attempts`,
  run: "Run",
  result: "Result",
  took: "Took",
  startedAt: "Started",
  failures: "Failures by error code",
  code: "Error code",
  times: "Times",
  lastTime: "Last time",
  message: "Message",
  neverFailed: "It did not fail in these runs.",
  lastGreen: "Last success",
  neverGreen: "It did not succeed in these runs.",
  log: "Log",
  history: "History",
  historyOf: (step: string) => `History of ${step}`,
};
