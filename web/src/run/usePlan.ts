import { RunPlanDocument } from "../api/gen/graphql";
import { type Query, useQuery } from "../api/useQuery";

/** The document of a run's plan, read when somebody looks: it never changes, so the last one is kept. Null when nobody has fetched it yet. */
export function usePlan(runId: string): Query<unknown> {
  return useQuery(RunPlanDocument, { runId }, ({ run }): unknown => run?.planDocument ?? null, {
    keep: ({ run }) => run?.planDocument != null,
  });
}
