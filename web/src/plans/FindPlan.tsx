import { Link, useNavigate } from "@tanstack/react-router";
import { useEffect } from "react";
import { PlansDocument } from "../api/gen/graphql";
import { useQuery } from "../api/useQuery";
import { m } from "../messages";
import { Problem } from "../page/Problem";
import { Where } from "../ui/Env";
import { Notice, Skeleton } from "../ui/Page";
import { PlanLink, StepLink } from "./links";
import css from "./Plans.module.css";

/** The most plans with this text in their ids that are searched. */
const SEARCHED = 50;

interface FindPlanProps {
  planId: string;
  /** A step of the plan; its history is opened. */
  stepId?: string;
}

/** A plan whose address has no project or environment: it is opened when it ran in one, else the reader chooses. */
export function FindPlan({ planId, stepId }: FindPlanProps) {
  const { answer, error, again } = useQuery(
    PlansDocument,
    { projectId: null, environmentId: null, text: planId, first: SEARCHED, after: null },
    ({ plans }) => plans.edges.map(({ node }) => node).filter((plan) => plan.planId === planId),
  );
  const navigate = useNavigate();
  const only = answer?.length === 1 ? answer[0] : undefined;
  useEffect(() => {
    if (only === undefined) return;
    const search = { project: only.projectId, env: only.environmentId };
    if (stepId === undefined) void navigate({ to: "/plans/$planId", params: { planId }, search, replace: true });
    else void navigate({ to: "/plans/$planId/steps/$stepId", params: { planId, stepId }, search, replace: true });
  }, [navigate, only, planId, stepId]);
  if (error && !answer) return <Problem error={error} retry={again} />;
  if (answer === undefined) return <Skeleton rows={4} label={m.sync.LOADING} />;
  if (answer.length === 0) {
    return (
      <Notice title={m.plans.noneCalled(planId)} heading>
        <p>{m.plans.noneMeans}</p>
        <Link to="/plans" search={{}}>
          {m.plans.toPlans}
        </Link>
      </Notice>
    );
  }
  if (only) return <Skeleton rows={4} label={m.sync.LOADING} />;
  return (
    <Notice title={m.plans.several(planId, answer.length)} heading>
      <ul className={css.scopes}>
        {answer.map((plan) => {
          const where = <Where project={plan.projectId} environment={plan.environmentId} />;
          return (
            <li key={`${plan.projectId}/${plan.environmentId}`}>
              {stepId === undefined ? (
                <PlanLink of={plan}>{where}</PlanLink>
              ) : (
                <StepLink of={plan} stepId={stepId}>
                  {where}
                </StepLink>
              )}
            </li>
          );
        })}
      </ul>
    </Notice>
  );
}
