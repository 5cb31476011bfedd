import { CauseNodesDocument } from "../api/gen/graphql";
import { queryOnce } from "../api/useQuery";
import { failingOf } from "../step/dbt";

/** Which of dbt's nodes the cause of a failure is: an attempt that has failed does not change. Null when there is nothing to say of them. */
export const useCauseNodes = queryOnce(
  CauseNodesDocument,
  ({ run }) => failingOf(run?.step?.dbtNodes ?? null),
  ({ run }) => (run?.step?.dbtNodes?.edges.length ?? 0) > 0,
);
