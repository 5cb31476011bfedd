// The steps of a run that has not started, as a graph or a list: those of its plan, when its document is known.
import { Suspense, useMemo } from "react";
import type { RunHeader, Step } from "../api/model";
import { MOST_STEPS, pendingSteps } from "../dag/pendingSteps";
import { m } from "../messages";
import { pictures } from "../messages/pictures";
import { ended } from "../status/look";
import { noSteps } from "../status/runWords";
import { stepTitle } from "../format/stepTitle";
import { lazyPart } from "../ui/lazyPart";
import { Notice, Skeleton } from "../ui/Page";
import css from "./RunViews.module.css";
import { usePlan } from "../plan/usePlan";

const PlanGraph = lazyPart(() => import("../dag/PlanGraph").then((part) => part.default));

interface PendingPlanProps {
  header: RunHeader;
  /** As a list of names, which a phone can show. */
  listed?: boolean;
}

export function PendingPlan(props: PendingPlanProps) {
  return ended(props.header) ? <Notice title={noSteps(props.header)} /> : <Planned {...props} />;
}

function Planned({ header, listed = false }: PendingPlanProps) {
  const { answer: plan } = usePlan(header.runId);
  const steps = useMemo(() => pendingSteps(plan), [plan]);
  if (plan === undefined) return <Skeleton rows={6} label={pictures.graph.layingOut} />;
  if (steps.length === 0 || steps.length > MOST_STEPS) return <Notice title={noSteps(header)} />;
  return (
    <>
      <p className={css.ask}>{m.run.planned}</p>
      {listed ? (
        <Names steps={steps} />
      ) : (
        <Suspense fallback={<Skeleton rows={6} label={pictures.graph.layingOut} />}>
          <PlanGraph steps={steps} />
        </Suspense>
      )}
    </>
  );
}

/** The steps in the order of the plan, each with the steps that it waits for. */
function Names({ steps }: { steps: readonly Step[] }) {
  const nameOf = new Map(steps.map(({ stepId, name }) => [stepId, stepTitle(stepId, name)]));
  return (
    <ol aria-label={m.run.tabs.steps}>
      {steps.map(({ stepId, dependsOn }) => (
        <li key={stepId}>
          {nameOf.get(stepId)}
          {dependsOn.length > 0 && (
            <span className={css.after}> {m.run.after(dependsOn.map((id) => nameOf.get(id) ?? id))}</span>
          )}
        </li>
      ))}
    </ol>
  );
}
