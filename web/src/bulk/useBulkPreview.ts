import { useEffect, useState } from "react";
import { type ActionInput, type BulkActionInput, type BulkRunsInput, PreviewDocument, type PreviewQuery, RunIdsDocument } from "../api/gen/graphql";
import { type ApiError, request, toApiError } from "../api/request";
import { readRows } from "./useBulk";

const SAMPLES = 5;
const PAGE = 200;
/** The most runs of one bulk. */
export const MOST = 5_000;
const TYPING_MS = 300;

export interface Sample {
  runId: string;
  preview: Pick<PreviewQuery["preview"], "outcome" | "code" | "reason">;
}

export interface BulkPreviewed {
  count: number;
  /** What would happen to the first of them. */
  samples: Sample[];
}

export interface BulkAsked {
  action: BulkActionInput;
  runs: BulkRunsInput;
}

/** Which runs are meant now. Throws ApiError. */
async function meant(runs: BulkRunsInput, signal: AbortSignal): Promise<string[]> {
  if (runs.ids) return runs.ids;
  if (runs.failedOf) return ((await readRows(String(runs.failedOf), "failed")) ?? []).map((row) => row.runId);
  const ids: string[] = [];
  for (let after: string | null = null; ids.length <= MOST; ) {
    const { runs: page }: { runs: { edges: { node: { runId: string } }[]; pageInfo: { hasNextPage: boolean; endCursor: string | null } } } = await request(
      RunIdsDocument,
      { filter: runs.filter ?? null, first: PAGE, after },
      signal,
    );
    ids.push(...page.edges.map((edge) => edge.node.runId));
    if (!page.pageInfo.hasNextPage) break;
    after = page.pageInfo.endCursor;
  }
  return ids;
}

function one(action: BulkActionInput, runId: string): ActionInput {
  return action.signal ? { signal: { runId, signal: action.signal } } : { cancel: { runId } };
}

/** How many runs are meant and what the server says would happen to the first of them; null `asked` asks nothing. */
export function useBulkPreview(asked: BulkAsked | null): { preview: BulkPreviewed | null; failed: ApiError | null; again: () => void } {
  const [held, setHeld] = useState<{ preview: BulkPreviewed | null; failed: ApiError | null }>({ preview: null, failed: null });
  const [round, setRound] = useState(0);
  const of = asked === null ? null : JSON.stringify(asked);
  useEffect(() => {
    setHeld({ preview: null, failed: null });
    if (of === null) return;
    // What was made into text a moment ago.
    const { action, runs } = JSON.parse(of) as BulkAsked;
    const abort = new AbortController();
    const look = async (): Promise<void> => {
      const ids = await meant(runs, abort.signal);
      const samples = await Promise.all(
        ids.slice(0, SAMPLES).map(async (runId) => ({ runId, preview: (await request(PreviewDocument, { action: one(action, runId) }, abort.signal)).preview })),
      );
      setHeld({ preview: { count: ids.length, samples }, failed: null });
    };
    const timer = setTimeout(() => {
      look().catch((cause: unknown) => {
        if (!abort.signal.aborted) setHeld({ preview: null, failed: toApiError(cause) });
      });
    }, round === 0 && !action.signal?.retryStep ? 0 : TYPING_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [of, round]);
  return { ...held, again: () => setRound((n) => n + 1) };
}
