import { RunCausesDocument, type RunCausesQuery } from "../api/gen/graphql";
import type { RunHeader } from "../api/model";
import { type Query, useQuery } from "../api/useQuery";
import { ended } from "../status/look";

export type Cause = NonNullable<RunCausesQuery["run"]>["diagnosis"][number];

/** The engine and up to 16 queues are asked for each answer. */
const EVERY_MS = 30_000;

/** The causes why the run failed or does not continue. They are read again when the state of the run changes. */
export function useCauses(header: RunHeader): Query<readonly Cause[]> {
  const { runId, status, substatus, stepCounts, rootCause } = header;
  return useQuery(RunCausesDocument, { runId }, ({ run }): readonly Cause[] => run?.diagnosis ?? [], {
    refetchOn: [status, substatus, stepCounts.failed, rootCause?.firstSeq].join(),
    ...(ended(header) ? {} : { every: EVERY_MS }),
  });
}
