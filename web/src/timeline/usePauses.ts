import { useEffect, useState } from "react";
import { PausesDocument } from "../api/gen/graphql";
import { type RunEvent, toEvent } from "../api/model";
import { request } from "../api/request";
import { useRunState } from "../runs/context";

/** The run's pauses so far; read again when it is paused or goes on. Without an answer the picture lacks bands, nothing else. */
export function usePauses(runId: string): readonly RunEvent[] {
  const since = useRunState((store) => store.header()?.pause?.since ?? null);
  const [pauses, setPauses] = useState<readonly RunEvent[]>([]);
  useEffect(() => {
    let wanted = true;
    request(PausesDocument, { runId })
      .then(({ run }) => {
        if (wanted) setPauses((run?.events.edges ?? []).map((edge) => toEvent(edge.node)).toSorted((a, b) => a.runSeq - b.runSeq));
      })
      .catch(() => {});
    return () => {
      wanted = false;
    };
  }, [runId, since]);
  return pauses;
}
