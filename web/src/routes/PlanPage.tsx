import { getRouteApi, Link } from "@tanstack/react-router";
import { PlanDocument, type PlanQuery } from "../api/gen/graphql";
import { instant } from "../api/model";
import { useQuery } from "../api/useQuery";
import { duration, shortId } from "../format/format";
import { m } from "../messages";
import { PageHead } from "../page/List";
import { Problem } from "../page/Problem";
import { Bars } from "../plans/Bars";
import { runCell } from "../plans/glyphs";
import { Legend, PlanGrid } from "../plans/PlanGrid";
import { Next, Rate, StartLink, Typical } from "../plans/PlansOverview";
import { PlanVersions } from "../plans/PlanVersions";
import css from "../plans/Plans.module.css";
import page from "../styles/Page.module.css";
import { useDocumentStatus } from "../ui/documentStatus";
import { Where } from "../ui/Env";
import { Notice, Skeleton } from "../ui/Page";
import { Time } from "../ui/Time";

const route = getRouteApi("/plans/$planId");
const EVERY_MS = 10_000;
const RUNS = 30;

type Plan = NonNullable<PlanQuery["plan"]>;

export function PlanPage() {
  const { planId } = route.useParams();
  const { project, env } = route.useSearch();
  useDocumentStatus(`${m.plans.plan}: ${planId}`);
  const query = useQuery(
    PlanDocument,
    { projectId: project ?? "", environmentId: env ?? "", planId, runs: RUNS },
    ({ plan }) => plan,
    { every: EVERY_MS },
  );
  const { answer: plan, error, again, asOf } = query;
  if (error && !plan) return <Problem error={error} retry={again} />;
  if (plan === undefined) return <Skeleton rows={8} label={m.sync.LOADING} />;
  if (plan === null) return <NoPlan text={m.plans.none} />;
  return (
    <div className={page.measure}>
      <PageHead title={planId} asOf={asOf} refresh={again} repeated>
        <Where project={plan.summary.projectId} environment={plan.summary.environmentId} />
        <StartLink plan={plan.summary} />
      </PageHead>
      {error && <Problem error={error} retry={again} />}
      <Facts plan={plan} />
      <section className={css.section}>
        <Bars
          label={m.plans.durations(plan.summary.runs.length)}
          medianMs={plan.summary.medianWorkMs}
          bars={plan.summary.runs.toReversed().map((run) => {
            const look = runCell(run);
            const took =
              run.durationMs === null || run.workMs === null
                ? ""
                : m.plans.workOf(duration(run.workMs), duration(run.durationMs));
            return {
              key: run.runId,
              runId: run.runId,
              ms: run.workMs,
              look,
              name: m.plans.cell(look.word, took, shortId(run.runId)),
            };
          })}
        />
      </section>
      <section className={css.section}>
        <h2>{m.plans.grid}</h2>
        <p className={css.quiet}>{m.plans.gridMeans}</p>
        <PlanGrid of={plan.summary} grid={plan.grid} />
        <Legend grid={plan.grid} />
      </section>
      <section className={css.section}>
        <h2>{m.plans.versions}</h2>
        <p className={css.quiet}>{m.plans.counted(plan.countedRuns, plan.moreRuns)}</p>
        <PlanVersions versions={plan.versions} />
      </section>
      <section className={css.section}>
        <h2>{m.plans.starters}</h2>
        <ul className={css.parts}>
          {plan.starters.map(({ principal, runs, lastRunAt, lastRunId }) => (
            <li key={principal}>
              {principal} · {m.plans.used(runs)} · {m.plans.until} <Time at={instant(lastRunAt)} />,{" "}
              <Link to="/runs/$runId" params={{ runId: lastRunId }} search={{}}>
                {shortId(lastRunId)}
              </Link>
            </li>
          ))}
        </ul>
      </section>
    </div>
  );
}

/** The time of the oldest run that is counted. */
function Since({ runs }: { runs: Plan["summary"]["runs"] }) {
  const oldest = runs.at(-1);
  if (!oldest) return null;
  return (
    <>
      {" "}
      {m.plans.since} <Time at={instant(oldest.createdAt)} format="full" />
    </>
  );
}

function Facts({ plan: { summary } }: { plan: Plan }) {
  return (
    <dl className={css.facts}>
      {summary.successRate !== null && (
        <div>
          <dt>{m.plans.rate}</dt>
          <dd>
            <Rate plan={summary} />{" "}
            <span className={css.quiet}>
              {m.plans.rateOf(summary.succeeded, summary.ended)}
              <Since runs={summary.runs} />
            </span>
          </dd>
        </div>
      )}
      {summary.medianWorkMs !== null && (
        <div>
          <dt>{m.plans.typical}</dt>
          <dd>
            <Typical plan={summary} />
          </dd>
        </div>
      )}
      {summary.p90WorkMs !== null && (
        <div>
          <dt>{m.plans.p90}</dt>
          <dd>{duration(summary.p90WorkMs)}</dd>
        </div>
      )}
      <div>
        <dt>{m.plans.open}</dt>
        <dd>{m.plans.openRuns(summary.open, summary.waiting)}</dd>
      </div>
      {summary.nextRunId !== null && (
        <div>
          <dt>{m.plans.next}</dt>
          <dd>
            <Next plan={summary} />
          </dd>
        </div>
      )}
    </dl>
  );
}

export function NoPlan({ text }: { text: string }) {
  return (
    <Notice title={text}>
      <Link to="/plans" search={{}}>
        {m.plans.toPlans}
      </Link>
    </Notice>
  );
}
