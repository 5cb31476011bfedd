import { getRouteApi, Link } from "@tanstack/react-router";
import { type ComparedChange, CompareRunsDocument, type ComparedRunFieldsFragment } from "../api/gen/graphql";
import { instant } from "../api/model";
import { useQuery } from "../api/useQuery";
import { ComparedSteps } from "../compare/ComparedSteps";
import { type ComparedStep, type CompareSort, shownSteps } from "../compare/order";
import own from "../compare/Compare.module.css";
import css from "../plans/Plans.module.css";
import { count, duration, shortId } from "../format/format";
import { m } from "../messages";
import { PageHead } from "../page/List";
import { Problem } from "../page/Problem";
import { PlanLink } from "../plans/links";
import { PlanChanges } from "../plans/PlanChanges";
import { PlanParts } from "../plans/PlanParts";
import { runLook } from "../status/look";
import page from "../styles/Page.module.css";
import { useDocumentStatus } from "../ui/documentStatus";
import { Where } from "../ui/Env";
import { Notice, Skeleton } from "../ui/Page";
import { StatusBadge } from "../ui/Status";
import { Time } from "../ui/Time";

const route = getRouteApi("/compare");
const SORTS: readonly (CompareSort | undefined)[] = [undefined, "slower", "name"];

export function ComparePage() {
  useDocumentStatus(m.compare.title);
  const { a, b, all, sort } = route.useSearch();
  const both = a !== undefined && b !== undefined;
  const {
    answer: found,
    error,
    again,
    asOf,
  } = useQuery(CompareRunsDocument, both ? { a, b } : null, ({ compareRuns }) => compareRuns);
  if (!both) return <NoRuns text={m.compare.choose} />;
  if (error) return <Problem error={error} retry={again} />;
  if (found === undefined) return <Skeleton rows={8} label={m.sync.LOADING} />;
  if (found === null) return <NoRuns text={m.compare.none} />;
  const differing = shownSteps(found.steps, false, undefined);
  const shown = shownSteps(found.steps, all === "yes", sort);
  return (
    <div className={page.measure}>
      <PageHead title={m.compare.title} asOf={asOf} refresh={again}>
        <Link to="/compare" search={{ a: b, b: a, all, sort }}>
          {m.compare.swap}
        </Link>
      </PageHead>
      <div className={own.runs}>
        <Run title={m.compare.a} run={found.a} />
        <Run title={m.compare.b} run={found.b} />
      </div>
      <section className={css.section}>
        <h2>{m.compare.params}</h2>
        {found.params.length === 0 ? (
          <p className={css.quiet}>{m.compare.sameParams}</p>
        ) : (
          <PlanParts parts={found.params} />
        )}
      </section>
      <section className={css.section}>
        <h2>{m.compare.plan}</h2>
        <PlanChanges a={found.a.runId} b={found.b.runId} />
      </section>
      <section className={css.section}>
        <h2>{m.compare.steps}</h2>
        <Counts steps={differing} />
        <nav className={own.choose} aria-label={m.compare.show}>
          <Link to="/compare" search={{ a, b, sort }} data-current={all === undefined || undefined}>
            {m.compare.differing(differing.length)}
          </Link>
          <Link to="/compare" search={{ a, b, sort, all: "yes" }} data-current={all === "yes" || undefined}>
            {m.compare.all(found.steps.length)}
          </Link>
        </nav>
        <nav className={own.choose} aria-label={m.compare.sort}>
          <span className={css.quiet}>{m.compare.sort}</span>
          {SORTS.map((one) => (
            <Link
              key={one ?? "plan"}
              to="/compare"
              search={{ a, b, all, sort: one }}
              data-current={one === sort || undefined}
            >
              {m.compare.sorts[one ?? "plan"]}
            </Link>
          ))}
        </nav>
        {shown.length === 0 ? (
          <p className={css.quiet}>{m.compare.same}</p>
        ) : (
          <ComparedSteps a={found.a} b={found.b} steps={shown} />
        )}
        <p className={css.quiet}>{m.compare.threshold}</p>
      </section>
    </div>
  );
}

/** How many steps differ in each way. */
function Counts({ steps }: { steps: readonly ComparedStep[] }) {
  const kinds = Object.keys(m.compare.changes) as ComparedChange[];
  const counts = kinds
    .map((kind) => [kind, steps.filter(({ changes }) => changes.includes(kind)).length] as const)
    .filter(([, n]) => n > 0);
  if (counts.length === 0) return null;
  return (
    <ul className={own.counts}>
      {counts.map(([kind, n]) => (
        <li key={kind}>
          <strong>{count(n)}</strong> {m.compare.changes[kind]}
        </li>
      ))}
    </ul>
  );
}

function Run({ title, run }: { title: string; run: ComparedRunFieldsFragment }) {
  return (
    <section className={own.run} aria-label={title}>
      <h2>{title}</h2>
      <p className={own.line}>
        <StatusBadge look={runLook({ ...run, pause: null })} />
        <Link to="/runs/$runId" params={{ runId: run.runId }} search={{}}>
          {shortId(run.runId)}
        </Link>
        <PlanLink of={{ projectId: run.projectId, environmentId: run.environmentId, planId: run.plan.planId }}>
          {run.plan.planId}@{run.plan.planVersion}
        </PlanLink>
        <Where project={run.projectId} environment={run.environmentId} />
      </p>
      <p className={css.quiet}>
        {m.compare.started} <Time at={instant(run.createdAt)} />
        {run.totalDurationMs !== null && ` · ${m.compare.took} ${duration(run.totalDurationMs)}`}
        {run.triggeredBy !== null && ` · ${m.compare.starter} ${run.triggeredBy}`}
      </p>
    </section>
  );
}

function NoRuns({ text }: { text: string }) {
  return (
    <Notice title={text}>
      <Link to="/runs">{m.run.toRuns}</Link>
    </Notice>
  );
}
