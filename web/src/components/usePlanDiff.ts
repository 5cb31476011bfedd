import { useEffect, useState } from "react";
import { PlanDiffDocument, type PlanDiffQuery } from "../api/gen/graphql";
import { type ApiError, request, toApiError } from "../api/request";

export type PlanDiffOf = NonNullable<NonNullable<PlanDiffQuery["run"]>["planDiff"]>;

/** How the plan of a run differs from that of the run before: undefined while it is asked for, null when there is nothing to compare. */
export function usePlanDiff(runId: string): { diff: PlanDiffOf | null | undefined; error: ApiError | null } {
  const [diff, setDiff] = useState<PlanDiffOf | null | undefined>(undefined);
  const [error, setError] = useState<ApiError | null>(null);
  useEffect(() => {
    const abort = new AbortController();
    setDiff(undefined);
    setError(null);
    request(PlanDiffDocument, { runId }, abort.signal)
      .then(({ run }) => setDiff(run?.planDiff ?? null))
      .catch((cause: unknown) => {
        if (!abort.signal.aborted) setError(toApiError(cause));
      });
    return () => abort.abort();
  }, [runId]);
  return { diff, error };
}
