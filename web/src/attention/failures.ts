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
  /** The newest one first. */
  runIds: string[];
  last: Instant;
  /** A run of the plan that was created after the last failure has completed. */
  recovered: boolean;
}

type Answer = Pick<FailedLatelyQuery, "failed"> & { completed: Pick<FailedLatelyQuery["completed"], "edges"> };
type Place = Pick<FailedRunFieldsFragment, "projectId" | "environmentId"> & { plan: { planId: string } };

function planKey({ projectId, environmentId, plan }: Place): string {
  return [projectId, environmentId, plan.planId].join(" ");
}

/** The failures since a moment: those that nobody has repaired first, then the newest. */
export function toFailures({ failed, completed }: Answer, since: Instant): Failure[] {
  const green = new Map<string, Instant>();
  for (const { node } of completed.edges) {
    const key = planKey(node);
    green.set(key, Math.max(green.get(key) ?? 0, instant(node.createdAt)));
  }
  const by = new Map<string, Failure>();
  for (const { node } of failed.edges) {
    const ended = instant(node.completedAt ?? node.createdAt);
    if (ended < since) continue;
    const { stepId = null, stepName = null, code = "", message = null } = node.rootCause ?? {};
    const plan = planKey(node);
    const key = [plan, stepId ?? "", code].join(" ");
    const failure = by.get(key);
    if (failure) {
      failure.runIds.push(node.runId);
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
      last: ended,
      // The newest run of a cause comes first.
      recovered: (green.get(plan) ?? 0) > instant(node.createdAt),
    });
  }
  return [...by.values()].toSorted((a, b) => Number(a.recovered) - Number(b.recovered) || b.last - a.last);
}
