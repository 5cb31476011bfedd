// Which of dbt's nodes the cause of a failure is: read once, because an attempt that has failed does not change.
import { useEffect, useState } from "react";
import { CauseNodesDocument } from "../api/gen/graphql";
import type { RunHeader } from "../api/model";
import { request } from "../api/request";
import { DBT_FAILING, type Failing, failingOf } from "./dbt";

let kept: { of: string; failing: Failing | null } | null = null;

/** Undefined while it is not known, null when there is nothing to say of dbt's nodes. It asks only when told that the cause is dbt's. */
export function useCauseNodes(runId: string, { stepId, logicalAttemptId: attempt }: NonNullable<RunHeader["rootCause"]>, dbt: boolean): Failing | null | undefined {
  const of = `${runId}/${stepId}/${attempt}`;
  const [held, setHeld] = useState(kept);
  useEffect(() => {
    if (!dbt || stepId === null || kept?.of === of) return;
    const abort = new AbortController();
    request(CauseNodesDocument, { runId, stepId, attempt, failing: DBT_FAILING }, abort.signal)
      .then(({ run }) => {
        kept = { of, failing: failingOf(run?.step?.dbtNodes ?? null) };
        setHeld(kept);
      })
      // The cause is told without it.
      .catch(() => {});
    return () => abort.abort();
  }, [of, runId, stepId, attempt, dbt]);
  return held?.of === of ? held.failing : undefined;
}
