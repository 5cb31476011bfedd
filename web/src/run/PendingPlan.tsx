// The graph of a run that has not started: the steps of its plan, when its document is known.
import { Suspense, useMemo } from "react";
import type { RunHeader } from "../api/model";
import { MOST_STEPS, pendingSteps } from "../dag/pendingSteps";
import { m } from "../messages";
import { pictures } from "../messages/pictures";
import { ended } from "../status/look";
import { noSteps } from "../status/runWords";
import { lazyPart } from "../ui/lazyPart";
import { Notice, Skeleton } from "../ui/Page";
import css from "./RunViews.module.css";
import { usePlan } from "../plan/usePlan";

const PlanGraph = lazyPart(() => import("../dag/PlanGraph").then((part) => part.default));

export function PendingPlan({ header }: { header: RunHeader }) {
  return ended(header) ? <Notice title={noSteps(header)} /> : <Planned header={header} />;
}

function Planned({ header }: { header: RunHeader }) {
  const { answer: plan } = usePlan(header.runId);
  const steps = useMemo(() => pendingSteps(plan), [plan]);
  if (plan === undefined) return <Skeleton rows={6} label={pictures.graph.layingOut} />;
  if (steps.length === 0 || steps.length > MOST_STEPS) return <Notice title={noSteps(header)} />;
  return (
    <>
      <p className={css.ask}>{m.run.planned}</p>
      <Suspense fallback={<Skeleton rows={6} label={pictures.graph.layingOut} />}>
        <PlanGraph steps={steps} />
      </Suspense>
    </>
  );
}
