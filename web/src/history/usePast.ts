import { useEffect, useRef, useState } from "react";
import { RunAtDocument } from "../api/gen/graphql";
import { instant, toHeader, toStep } from "../api/model";
import { type ApiError, toApiError } from "../api/error";
import { request } from "../api/request";
import { RunStore } from "../runstate/store";

export interface Past {
  /** Null while the first moment is fetched. */
  store: RunStore | null;
  error: ApiError | null;
}

const NOW: Past = { store: null, error: null };

/** Reads the run as it was at a position of its log into a store of its own. Null reads nothing. */
export function usePast(runId: string, at: number | null): Past & { again: () => void } {
  const [past, setPast] = useState(NOW);
  const [attempt, setAttempt] = useState(0);
  const held = useRef<RunStore | null>(null);
  const gone = at === null;
  useEffect(() => {
    if (gone) {
      held.current = null;
      setPast(NOW);
    }
  }, [gone, runId]);
  useEffect(() => {
    if (at === null) return;
    const abort = new AbortController();
    request(RunAtDocument, { runId, at, next: at + 1 }, abort.signal)
      .then(({ run, log }) => {
        if (!run) return;
        const event = log?.events.edges[0]?.node;
        const store = held.current ?? new RunStore();
        store.show(toHeader(run), run.steps.map(toStep), instant(event?.persistedAt ?? run.createdAt));
        held.current = store;
        setPast({ store, error: null });
      })
      .catch((cause: unknown) => {
        if (!abort.signal.aborted) setPast({ store: held.current, error: toApiError(cause) });
      });
    return () => abort.abort();
  }, [runId, at, attempt]);
  return { ...past, again: () => setAttempt(attempt + 1) };
}
