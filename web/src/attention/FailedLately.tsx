import { Link, useNavigate } from "@tanstack/react-router";
import { Suspense, useState } from "react";
import { FailedLatelyDocument } from "../api/gen/graphql";
import { useQuery } from "../api/useQuery";
import { newAction } from "../bulk/action";
import { errorSentence } from "../format/errorSentence";
import { DAY_MS, shortId } from "../format/format";
import { m } from "../messages";
import { PlanLink } from "../plans/links";
import { useCan } from "../session/useCan";
import { Button } from "../ui/Button";
import { Where } from "../ui/Env";
import { lazyPart } from "../ui/lazyPart";
import { Table } from "../ui/Table";
import { Time } from "../ui/Time";
import css from "./Attention.module.css";
import { type Failure, toFailures } from "./failures";

const BulkDialog = lazyPart(() => import("../bulk/BulkDialog").then((part) => part.BulkDialog));
const RunDialog = lazyPart(() => import("../actions/RunDialog").then((part) => part.RunDialog));

const EVERY_MS = 30_000;
const SHOWN = 5;
/** Runs that are read. A run that ended within a day may have begun one day earlier. */
const READ = 100;
const BEGAN_DAYS = 2;
const ANCHOR = "failed-lately";

export interface FailedLatelyState {
  failures: readonly Failure[];
  runs: number;
  /** There are more runs than were read. */
  more: boolean;
}

/** Runs that failed for good in the last 24 hours; null before the first answer. */
export function useFailedLately(): FailedLatelyState | null {
  // A minute of the clock, so that the query stays the same while the page is drawn again.
  const now = Math.floor(Date.now() / 60_000) * 60_000;
  const { last = null } = useQuery(
    FailedLatelyDocument,
    { createdFrom: new Date(now - BEGAN_DAYS * DAY_MS).toISOString(), first: READ },
    (answer): FailedLatelyState => {
      const failures = toFailures(answer, now - DAY_MS);
      const runs = failures.reduce((sum, { runIds }) => sum + runIds.length, 0);
      return { failures, runs, more: answer.failed.pageInfo.hasNextPage };
    },
    { every: EVERY_MS },
  );
  return last;
}

/** The number of failed runs, beside the heading of the page; it leads to their rows. */
export function FailedCount({ of: { failures, runs, more } }: { of: FailedLatelyState }) {
  if (runs === 0) return null;
  return (
    <a href={`#${ANCHOR}`} className={css.failedCount}>
      {m.attention.failedCount(
        runs,
        more,
        failures.reduce((sum, { rerun }) => sum + rerun, 0),
      )}
    </a>
  );
}

/** A row for each plan and cause, with a rerun in place. Nothing when no run failed. */
export function FailedLately({ of: { failures, runs, more } }: { of: FailedLatelyState }) {
  const [all, setAll] = useState(false);
  const [asking, setAsking] = useState<Failure | null>(null);
  const navigate = useNavigate();
  const refusal = useCan("RERUN");
  if (failures.length === 0) return null;
  const close = (): void => setAsking(null);
  const [newest = ""] = asking?.runIds ?? [];
  const hidden = failures.length - SHOWN;
  return (
    <section aria-labelledby={ANCHOR} className={css.section}>
      <div className={css.head}>
        <h2 id={ANCHOR}>{m.attention.failedLately}</h2>
        <Link to="/runs" search={{ status: ["FAILED"], from: "-24h" }} className={css.all}>
          {m.attention.inTheList}
        </Link>
      </div>
      {more && <p className={css.note}>{m.attention.newest(runs)}</p>}
      <Table
        label={m.attention.failedLately}
        rowKey={({ key }) => key}
        rows={all ? failures : failures.slice(0, SHOWN)}
        columns={[
          {
            head: m.plans.plan,
            main: true,
            cell: (of) => <PlanLink of={of}>{of.planId}</PlanLink>,
          },
          {
            head: m.plans.where,
            cell: ({ projectId, environmentId }) => <Where project={projectId} environment={environmentId} />,
          },
          {
            head: m.attention.cause,
            line: true,
            cell: ({ stepId, stepName, code, message }) => (
              <span title={[stepId, message].filter(Boolean).join("\n")}>
                {errorSentence(message, stepName ?? stepId)} <code>{code}</code>
              </span>
            ),
          },
          { head: m.attention.runs, cell: ({ runIds, rerun }) => m.attention.times(runIds.length, rerun) },
          {
            head: m.attention.failedAt,
            cell: ({ last, recovered }) => (
              <>
                <Time at={last} />
                {recovered && <span className={css.recovered}> · {m.attention.recovered}</span>}
              </>
            ),
          },
          {
            head: m.attention.next,
            cell: (of) => (
              <span className={css.rowButtons}>
                <Button
                  refusal={refusal}
                  label={m.attention.named(
                    `${m.attention.rerun(of.runIds.length)}…`,
                    `${of.planId}, ${of.stepName ?? of.stepId}`,
                  )}
                  onClick={() => setAsking(of)}
                >
                  {m.attention.rerun(of.runIds.length)}…
                </Button>
                <Link
                  to="/runs/$runId"
                  params={{ runId: of.runIds[0] ?? "" }}
                  search={{}}
                  aria-label={m.attention.named(m.attention.open, `${of.planId} ${shortId(of.runIds[0] ?? "")}`)}
                >
                  {m.attention.open}
                </Link>
              </span>
            ),
          },
        ]}
      />
      {hidden > 0 && (
        <p className={css.rest}>
          <Button kind="quiet" expanded={all} onClick={() => setAll(!all)}>
            {all ? m.attention.fewer : m.attention.others(hidden)}
          </Button>
        </p>
      )}
      <Suspense>
        {asking && asking.runIds.length > 1 && (
          <BulkDialog action={newAction("RERUN")} runs={{ ids: asking.runIds }} onClose={close} />
        )}
        {asking && asking.runIds.length === 1 && (
          <RunDialog
            action="RERUN"
            runId={newest}
            stepId={null}
            logicalAttemptId={null}
            title={m.attention.named(m.action.RERUN, `${asking.planId} ${shortId(newest)}`)}
            done={({ newRunId }) => {
              if (newRunId !== null) void navigate({ to: "/runs/$runId", params: { runId: newRunId }, search: {} });
            }}
            close={close}
          />
        )}
      </Suspense>
    </section>
  );
}
