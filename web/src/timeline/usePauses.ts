import { PausesDocument } from "../api/gen/graphql";
import { type RunEvent, toEvent } from "../api/model";
import { useQuery } from "../api/useQuery";
import { useRunState } from "../runstate/context";

const NONE: readonly RunEvent[] = [];

/** The run's pauses so far; read again when it is paused or goes on. Without an answer the picture lacks bands, nothing else. */
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
