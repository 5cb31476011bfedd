// The document of a run's plan, read when somebody looks: it never changes, so the last one is kept.
import { useEffect, useState } from "react";
import { RunPlanDocument } from "../api/gen/graphql";
import { type ApiError, request, toApiError } from "../api/request";

let kept: { runId: string; document: unknown } | null = null;

async function read(runId: string, signal: AbortSignal): Promise<unknown> {
  if (kept?.runId === runId) return kept.document;
  const { run } = await request(RunPlanDocument, { runId }, signal);
  const document: unknown = run?.planDocument ?? null;
  if (document !== null) kept = { runId, document };
  return document;
}

export interface Plan {
  /** Undefined while it is read; null when nobody has fetched it yet. */
  document: unknown;
  error: ApiError | null;
  again: () => void;
}

export function usePlan(runId: string): Plan {
  const [document, setDocument] = useState<unknown>(undefined);
  const [error, setError] = useState<ApiError | null>(null);
  const [round, setRound] = useState(0);
  useEffect(() => {
    const abort = new AbortController();
    setError(null);
    read(runId, abort.signal)
      .then(setDocument)
      .catch((cause: unknown) => {
        if (!abort.signal.aborted) setError(toApiError(cause));
      });
    return () => abort.abort();
  }, [runId, round]);
  return { document, error, again: () => setRound(round + 1) };
}
