// What an open run stands still for beside what its header says: approvals, the queue, pauses and people.
import { RunWaitsDocument, type RunWaitsQuery } from "../api/gen/graphql";
import type { RunHeader } from "../api/model";
import { useQuery } from "../api/useQuery";
import { useRunState } from "../runstate/context";
import { ended } from "../status/look";

export type Wait = NonNullable<RunWaitsQuery["run"]>["waits"][number];

const EVERY_MS = 10_000;
const SHOWN: readonly Wait["kind"][] = ["ENGINE", "STORE", "JOURNAL", "QUOTA", "WORKER", "PLAN_FETCH"];
const NONE: readonly Wait[] = [];

/** All waits of an open run. They are queried, because a run that stands still sends nothing. */
export function useAllWaits(header: RunHeader): { seq: number; waits: readonly Wait[] } {
  const past = useRunState((store) => store.verdict().state === "PAST");
  const open = !ended(header) && !past;
  const started = header.startedAt !== null;
  const { answer } = useQuery(
    RunWaitsDocument,
    open ? { runId: header.runId } : null,
    ({ run }) => ({ seq: run?.runSeq ?? 0, started: (run?.startedAt ?? null) !== null, waits: run?.waits ?? NONE }),
    { every: EVERY_MS, refetchOn: `${started} ${header.status}` },
  );
  // What a run waited for before its start is over.
  if (!open || answer === undefined || (started && !answer.started)) return { seq: 0, waits: NONE };
  return answer;
}

/** The waits that the page says in words, the one that stops the most first. */
export function useWaits(header: RunHeader): readonly Wait[] {
  const { seq: asked, waits } = useAllWaits(header);
  const seq = useRunState((store) => store.seq);
  const started = header.startedAt !== null;
  return waits.filter(
    ({ kind, since }) =>
      SHOWN.includes(kind) &&
      // The words about the queue say which quota a run waits for that has not started.
      !(kind === "QUOTA" && !started) &&
      // Each step waits for a worker for a moment. A run that has moved since the answer does not stand still.
      (since !== null || seq <= asked),
  );
}
