import { Link } from "@tanstack/react-router";
import { Fragment } from "react";
import { RerunsDocument } from "../api/gen/graphql";
import type { RunHeader } from "../api/model";
import { useQuery } from "../api/useQuery";
import { count, shortId } from "../format/format";
import { m } from "../messages";
import { runLook } from "../status/look";

/** Only an ended run can be rerun, so its reruns are looked for among the runs of its plan that follow its end. */
const READ = 100;
const EVERY_MS = 15_000;
const NAMED = 3;

/**
 * Names the reruns of an ended run with their status, so that nobody reruns it a second time. Nothing when none of the
 * next 100 runs of the plan is one.
 */
export function Reruns({
  header,
  before,
  none = null,
  className,
}: {
  header: RunHeader;
  before?: string;
  /** Is shown when there is no rerun. */
  none?: string | null;
  className?: string | undefined;
}) {
  const { last: reruns = [] } = useQuery(
    RerunsDocument,
    header.completedAt === null
      ? null
      : {
          projectId: header.projectId,
          environmentId: header.environmentId,
          planId: header.plan.planId,
          createdFrom: new Date(header.completedAt).toISOString(),
          first: READ,
        },
    ({ runs }) => (runs?.edges ?? []).map(({ node }) => node).filter(({ parentRunId }) => parentRunId === header.runId),
    { every: EVERY_MS },
  );
  if (reruns.length === 0) return none;
  const named = reruns.slice(-NAMED);
  return (
    <span className={className} data-testid="reruns">
      {before}
      {m.run.rerunAs}{" "}
      {named.map((run, i) => (
        <Fragment key={run.runId}>
          {i > 0 && ", "}
          <Link to="/runs/$runId" params={{ runId: run.runId }} search={{}}>
            {shortId(run.runId)}
          </Link>{" "}
          ({runLook({ ...run, pause: null }).word})
        </Fragment>
      ))}
      {reruns.length > NAMED && ` ${m.run.andMore(count(reruns.length - NAMED))}`}
    </span>
  );
}
