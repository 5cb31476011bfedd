import { getRouteApi, Link } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { type ComparedChange, CompareRunsDocument, type ComparedRunFieldsFragment } from "../api/gen/graphql";
import { useQuery } from "../api/useQuery";
import { ChooseRuns } from "../compare/ChooseRuns";
import { type RunRef, useRunRef } from "../compare/runRef";
import { ComparedRun } from "../compare/ComparedRun";
import { ComparedSteps } from "../compare/ComparedSteps";
import { type ComparedStep, type CompareSort, shownSteps } from "../compare/order";
import own from "../compare/Compare.module.css";
import css from "../plans/Plans.module.css";
import { count } from "../format/format";
import { m } from "../messages";
import { PageHead } from "../page/List";
import { Problem } from "../page/Problem";
import { PlanChanges } from "../plans/PlanChanges";
import { PlanParts } from "../plans/PlanParts";
import form from "../styles/Form.module.css";
import page from "../styles/Page.module.css";
import { useDocumentStatus } from "../ui/documentStatus";
import { Skeleton } from "../ui/Page";

const route = getRouteApi("/compare");
const SORTS: readonly (CompareSort | undefined)[] = [undefined, "slower", "name"];

export function ComparePage() {
  useDocumentStatus(m.compare.title);
  const { a, b } = route.useSearch();
  const both = a !== undefined && b !== undefined;
  // A run that the comparison does not find is looked for by itself, so that its own field says so.
  const [missing, setMissing] = useState("");
  const given = `${a ?? ""} ${b ?? ""}`;
  const look = !both || missing === given;
  const refs = { a: useRunRef(a, look), b: useRunRef(b, look) };
  if (both && refs.a.runId !== null && refs.b.runId !== null && !look)
    return <Compared key={given} a={refs.a.runId} b={refs.b.runId} notFound={() => setMissing(given)} />;
  if (both && refs.a.problem === null && refs.b.problem === null && !(refs.a.run && refs.b.run))
    return <Skeleton rows={8} label={m.sync.LOADING} />;
  return (
    <div className={page.measure}>
      <div className={form.head}>
        <h1>{m.compare.title}</h1>
      </div>
      {both && refs.a.run && refs.b.run && <p role="alert">{m.compare.none}</p>}
      <ChooseRuns key={given} a={a ?? ""} b={b ?? ""} refs={refs} />
    </div>
  );
}

function Compared({ a: aId, b: bId, notFound }: { a: string; b: string; notFound: () => void }) {
  const { a, b, all, sort } = route.useSearch();
  const [others, setOthers] = useState(false);
  const {
    answer: found,
    error,
    again,
    asOf,
  } = useQuery(CompareRunsDocument, { a: aId, b: bId }, ({ compareRuns }) => compareRuns);
  const gone = found === null;
  useEffect(() => {
    if (gone) notFound();
    // Said once for these runs.
    // oxlint-disable-next-line react/exhaustive-deps
  }, [gone]);
  if (error) return <Problem error={error} retry={again} />;
  if (!found) return <Skeleton rows={8} label={m.sync.LOADING} />;
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
        <ComparedRun
          title={m.compare.a}
          run={found.a}
          other={{ title: m.compare.b, runId: found.b.runId }}
          waitedMs={found.aWaitedMs}
          asOf={asOf}
        />
        <ComparedRun
          title={m.compare.b}
          run={found.b}
          other={{ title: m.compare.a, runId: found.a.runId }}
          waitedMs={found.bWaitedMs}
          asOf={asOf}
        />
      </div>
      <details className={own.other} onToggle={(event) => setOthers(event.currentTarget.open)}>
        <summary>{m.compare.others}</summary>
        {others && <ChooseRuns a={a ?? ""} b={b ?? ""} refs={{ a: refOf(found.a), b: refOf(found.b) }} />}
      </details>
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

/** Returns the RunRef of a run that is already loaded. */
function refOf({ runId }: ComparedRunFieldsFragment): RunRef {
  return { runId, run: null, problem: null, among: [] };
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
