import { CauseNodesDocument } from "../api/gen/graphql";
import { queryOnce } from "../api/useQuery";
import { failingOf } from "../step/dbt";

/**
 * The failing dbt nodes of the root cause, read once, because a failed attempt does not change. Null when none is
 * known.
 */
export const useCauseNodes = queryOnce(
  CauseNodesDocument,
  ({ run }) => failingOf(run?.step?.dbtNodes ?? null),
  ({ run }) => (run?.step?.dbtNodes?.edges.length ?? 0) > 0,
);
