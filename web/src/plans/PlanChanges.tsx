import { ComparePlansDocument } from "../api/gen/graphql";
import { useQuery } from "../api/useQuery";
import { m } from "../messages";
import { planDiff as planDiffWords } from "../messages/planDiff";
import { Problem } from "../page/Problem";
import { PlanParts } from "./PlanParts";
import css from "./Plans.module.css";

/** The differences from the plan of run `a` to that of run `b`. Plans never change, so an answer is kept. */
export function PlanChanges({ a, b }: { a: string; b: string }) {
  const { answer, error, again } = useQuery(
    ComparePlansDocument,
    { a, b },
    ({ compareRuns }) => compareRuns?.plan ?? null,
    { keep: ({ compareRuns }) => compareRuns?.plan !== null },
  );
  if (error) return <Problem error={error} retry={again} />;
  if (answer === undefined) return <p className={css.quiet}>{m.diff.loading}</p>;
  if (answer === null) return <p className={css.quiet}>{m.plans.noDocument}</p>;
  const { added, removed, changed, parts, steps } = answer;
  if (parts.length === 0 && steps.length === 0) return <p className={css.quiet}>{planDiffWords.same}</p>;
  const more = added + removed + changed - steps.length;
  return (
    <div>
      <p>
        <strong>{planDiffWords.counts(added, removed, changed)}</strong>
      </p>
      {parts.length > 0 && <PlanParts parts={parts} />}
      <ul className={css.parts}>
        {steps.map((step) => (
          <li key={step.stepId}>
            <span aria-hidden="true">{planDiffWords.sign[step.change]}</span> <code>{step.stepId}</code>{" "}
            <span className={css.quiet}>{planDiffWords.change[step.change]}</span>
            {step.parts.length > 0 && <PlanParts parts={step.parts} />}
          </li>
        ))}
      </ul>
      {more > 0 && <p className={css.quiet}>{planDiffWords.more(more)}</p>}
    </div>
  );
}
