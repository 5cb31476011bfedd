// The graph of the plan in the editor.
import { Suspense, useMemo } from "react";
import type { Step } from "../api/model";
import { MOST_STEPS, pendingSteps } from "../dag/pendingSteps";
import { m } from "../messages";
import { pictures } from "../messages/pictures";
import { lazyPart } from "../ui/lazyPart";
import { Skeleton } from "../ui/Page";
import css from "./Start.module.css";

const PlanGraph = lazyPart(() => import("../dag/PlanGraph").then((part) => part.default));

export function Steps({ document }: { document: unknown }) {
  // As text, so that the picture stays while anything else than ids, names and dependencies is typed.
  const drawn = JSON.stringify(pendingSteps(document));
  const kept = useMemo(() => JSON.parse(drawn) as Step[], [drawn]);
  if (kept.length === 0 || kept.length > MOST_STEPS) return null;
  return (
    <section className={css.part} aria-label={m.start.steps}>
      <h2>{m.start.steps}</h2>
      <Suspense fallback={<Skeleton rows={4} label={pictures.graph.layingOut} />}>
        <PlanGraph steps={kept} />
      </Suspense>
    </section>
  );
}
