// The inbox as one list: runs to approve and steps to complete.
import { explain, isStuck } from "../actions/refusal";
import type { ApprovalsQuery, TaskFieldsFragment } from "../api/gen/graphql";
import type { Instant } from "../format/format";
import { instant } from "../api/model";
import { m } from "../messages";

export type Approval = ApprovalsQuery["approvals"]["edges"][number]["node"];

export interface Item {
  key: string;
  kind: "approval" | "task";
  runId: string;
  stepId: string | null;
  /** The plan with its version, or the step. */
  name: string;
  projectId: string;
  environmentId: string;
  by: string | null;
  since: Instant;
  until: Instant | null;
  instructions: string | null;
  /** Why the viewer may not decide it; null when they may. */
  refusal: string | null;
  /** Nobody is left who could give all missing approvals. */
  stuck: boolean;
  /** The viewer may say no now, even when `refusal` forbids a yes. */
  mayReject: boolean;
  approval: Approval | null;
  task: TaskFieldsFragment | null;
}

function ofApproval(run: Approval): Item {
  const may = run.actions.find((entry) => entry.action === "APPROVE");
  return {
    key: run.runId,
    kind: "approval",
    runId: run.runId,
    stepId: null,
    name: `${run.plan.planId}@${run.plan.planVersion}`,
    projectId: run.projectId,
    environmentId: run.environmentId,
    by: run.triggeredBy,
    since: instant(run.createdAt),
    until: null,
    instructions: null,
    refusal: may ? explain(may) : m.denied.noAnswer,
    stuck: isStuck(may, run.approval),
    mayReject: may?.mayReject === true,
    approval: run,
    task: null,
  };
}

function ofTask(task: TaskFieldsFragment): Item {
  return {
    key: `${task.runId}/${task.stepId}/${task.logicalAttemptId}`,
    kind: "task",
    runId: task.runId,
    stepId: task.stepId,
    name: task.stepName ?? task.stepId,
    projectId: task.projectId,
    environmentId: task.environmentId,
    by: null,
    since: instant(task.since),
    until: task.deadline === null ? null : instant(task.deadline),
    instructions: task.instructions,
    refusal: explain(task.action),
    stuck: false,
    mayReject: explain(task.action) === null,
    approval: null,
    task,
  };
}

interface Place {
  project?: string | undefined;
  env?: string | undefined;
}

/** The longest wait first. */
export function toItems(
  approvals: readonly Approval[],
  tasks: readonly TaskFieldsFragment[],
  { project, env }: Place,
): Item[] {
  return [...approvals.map(ofApproval), ...tasks.map(ofTask)]
    .filter(
      (item) =>
        (project === undefined || item.projectId === project) && (env === undefined || item.environmentId === env),
    )
    .toSorted((a, b) => a.since - b.since);
}

/** Whether an item waits for the viewer: it does as long as they can decide about it in one way. */
export function isMine({ refusal, mayReject }: Pick<Item, "refusal" | "mayReject">): boolean {
  return refusal === null || mayReject;
}
