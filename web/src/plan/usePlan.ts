import { RunPlanDocument } from "../api/gen/graphql";
import { type Query, useQuery } from "../api/useQuery";

/** The document of a run's plan, kept because it never changes. Null when no worker has fetched it yet. */
export function usePlan(runId: string): Query<unknown> {
  return useQuery(RunPlanDocument, { runId }, ({ run }): unknown => run?.planDocument ?? null, {
    keep: ({ run }) => run?.planDocument != null,
  });
}
