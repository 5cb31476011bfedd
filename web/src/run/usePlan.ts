import { RunPlanDocument } from "../api/gen/graphql";
import { type Asked, useAsked } from "../api/useAsked";

const kept = {};

/** The document of a run's plan, read when somebody looks: it never changes, so the last one is kept. Null when nobody has fetched it yet. */
export function usePlan(runId: string): Asked<unknown> {
  return useAsked(RunPlanDocument, { runId }, ({ run }): unknown => run?.planDocument ?? null, { kept });
}
