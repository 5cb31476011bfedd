import { Link } from "@tanstack/react-router";
import { FailedLatelyDocument } from "../api/gen/graphql";
import { instant } from "../api/model";
import { useQuery } from "../api/useQuery";
import { DAY_MS, shortId } from "../format/format";
import { m } from "../messages";
import { Where } from "../ui/Env";
import { Table } from "../ui/Table";
import { Time } from "../ui/Time";
import css from "./Attention.module.css";

const EVERY_MS = 30_000;
const SHOWN = 5;

/** The newest runs that failed for good: nothing waits in them, yet somebody should know. Nothing when there are none. */
export function FailedLately() {
  // A minute of the clock, so that the query stays the same while the page is drawn again.
  const from = Math.floor((Date.now() - DAY_MS) / 60_000) * 60_000;
  const { answer } = useQuery(
    FailedLatelyDocument,
    { createdFrom: new Date(from).toISOString() },
    ({ runs }) => runs.edges.map(({ node }) => node),
    { every: EVERY_MS },
  );
  if (!answer || answer.length === 0) return null;
  return (
    <section aria-labelledby="failed-lately" className={css.section}>
      <div className={css.head}>
        <h2 id="failed-lately">{m.attention.failedLately}</h2>
        <Link to="/runs" search={{ status: ["FAILED"], from: "-24h" }} className={css.all}>
          {answer.length > SHOWN ? m.attention.allFailed : m.attention.inTheList}
        </Link>
      </div>
      <Table
        label={m.attention.failedLately}
        rowKey={(run) => run.runId}
        rows={answer.slice(0, SHOWN)}
        columns={[
          {
            head: m.attention.run,
            main: true,
            cell: ({ runId, plan }) => (
              <Link to="/runs/$runId" params={{ runId }} search={{}} title={runId}>
                {plan.planId}@{plan.planVersion} <code>{shortId(runId)}</code>
              </Link>
            ),
          },
          {
            head: m.plans.where,
            cell: ({ projectId, environmentId }) => <Where project={projectId} environment={environmentId} />,
          },
          {
            head: m.attention.cause,
            line: true,
            cell: ({ rootCause }) =>
              rootCause && (
                <span title={rootCause.message ?? undefined}>
                  {m.attention.failed(rootCause.stepName ?? rootCause.stepId ?? "", rootCause.code)} {rootCause.message}
                </span>
              ),
          },
          {
            head: m.attention.failedAt,
            cell: ({ completedAt }) => completedAt !== null && <Time at={instant(completedAt)} />,
          },
        ]}
      />
    </section>
  );
}
