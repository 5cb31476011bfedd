import { PausesDocument } from "../api/gen/graphql";
import { type RunEvent, toEvent } from "../api/model";
import { useQuery } from "../api/useQuery";
import { useRunState } from "../runstate/context";

const NONE: readonly RunEvent[] = [];

/**
 * The run's pauses so far, read again when a pause starts or ends. Without an answer the timeline only lacks their
 * bands.
 */
export function usePauses(runId: string): readonly RunEvent[] {
  const since = useRunState((store) => store.header()?.pause?.since ?? null);
  const { last } = useQuery(
    PausesDocument,
    { runId },
    ({ run }) => (run?.events.edges ?? []).map((edge) => toEvent(edge.node)).toSorted((a, b) => a.runSeq - b.runSeq),
    { version: since },
  );
  return last ?? NONE;
}
