// Runs that failed for good, as one row for each plan and cause.
import type { FailedLatelyQuery, FailedRunFieldsFragment } from "../api/gen/graphql";
import { instant } from "../api/model";
import type { Instant } from "../format/format";

export interface Failure {
  key: string;
  planId: string;
  projectId: string;
  environmentId: string;
  stepId: string;
  stepName: string | null;
  code: string;
  message: string;
  /** The newest one first. A run that was rerun is not among them. */
  runIds: string[];
  /** The number of failed runs that were left out, because a later rerun of them is among the runs. */
  rerun: number;
  last: Instant;
  /** A run of the plan that was created after the last failure has completed. */
  recovered: boolean;
}

type Answer = Pick<FailedLatelyQuery, "failed"> & {
  completed: Pick<FailedLatelyQuery["completed"], "edges">;
  open: Pick<FailedLatelyQuery["open"], "edges">;
};
type Rerun = Pick<FailedRunFieldsFragment, "runId" | "parentRunId" | "createdAt">;
type Place = Pick<FailedRunFieldsFragment, "projectId" | "environmentId"> & { plan: { planId: string } };

function planKey({ projectId, environmentId, plan }: Place): string {
  return [projectId, environmentId, plan.planId].join(" ");
}

/**
 * Returns a function from a run to the newest run of its chain of reruns. All reruns of a run do the same work, so to
 * rerun two of them would load the same data twice. A chain may begin with a run that was not read.
 */
function newestOfChain(runs: readonly Rerun[]): (run: Rerun) => string {
  const known = new Map(runs.map((run) => [run.runId, run]));
  const rootOf = (run: Rerun): string => {
    let root = run;
    for (;;) {
      if (root.parentRunId === null) return root.runId;
      const parent = known.get(root.parentRunId);
      if (!parent) return root.parentRunId;
      root = parent;
    }
  };
  const newest = new Map<string, Rerun>();
  for (const run of runs) {
    const root = rootOf(run);
    const other = newest.get(root);
    if (!other || instant(run.createdAt) > instant(other.createdAt)) newest.set(root, run);
  }
  return (run) => newest.get(rootOf(run))?.runId ?? run.runId;
}

/**
 * The failures since a moment: those that nobody has repaired first, then the newest. Of a chain of reruns only the
 * newest run counts, and none if that one has not failed.
 */
export function toFailures({ failed, completed, open }: Answer, since: Instant): Failure[] {
  const newestOf = newestOfChain([failed, completed, open].flatMap(({ edges }) => edges.map(({ node }) => node)));
  const rerun = new Map<string, number>();
  for (const { node } of failed.edges) {
    const newest = newestOf(node);
    if (newest !== node.runId) rerun.set(newest, (rerun.get(newest) ?? 0) + 1);
  }
  const green = new Map<string, Instant>();
  for (const { node } of completed.edges) {
    const key = planKey(node);
    green.set(key, Math.max(green.get(key) ?? 0, instant(node.createdAt)));
  }
  const by = new Map<string, Failure>();
  for (const { node } of failed.edges) {
    const ended = instant(node.completedAt ?? node.createdAt);
    if (ended < since || newestOf(node) !== node.runId) continue;
    const { stepId = null, stepName = null, code = "", message = null } = node.rootCause ?? {};
    const plan = planKey(node);
    const key = [plan, stepId ?? "", code].join(" ");
    const failure = by.get(key);
    if (failure) {
      failure.runIds.push(node.runId);
      failure.rerun += rerun.get(node.runId) ?? 0;
      failure.last = Math.max(failure.last, ended);
      continue;
    }
    by.set(key, {
      key,
      planId: node.plan.planId,
      projectId: node.projectId,
      environmentId: node.environmentId,
      stepId: stepId ?? "",
      stepName,
      code,
      message: message ?? "",
      runIds: [node.runId],
      rerun: rerun.get(node.runId) ?? 0,
      last: ended,
      // The newest run of a cause comes first.
      recovered: (green.get(plan) ?? 0) > instant(node.createdAt),
    });
  }
  return [...by.values()].toSorted((a, b) => Number(a.recovered) - Number(b.recovered) || b.last - a.last);
}
