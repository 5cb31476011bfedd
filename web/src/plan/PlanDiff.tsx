import { Link } from "@tanstack/react-router";
import { PlanDiffDocument, type PlanDiffQuery } from "../api/gen/graphql";
import { useQuery } from "../api/useQuery";
import { m } from "../messages";
import { planDiff as planDiffWords } from "../messages/planDiff";
import { RESET_STEP_PARAMS } from "../address/views";
import { shortId } from "../format/format";
import css from "./PlanDiff.module.css";

type Diff = NonNullable<NonNullable<PlanDiffQuery["run"]>["planDiff"]>;

/** The differences to the plan of the run before: added, removed and changed steps. */
export function PlanDiff({ runId }: { runId: string }) {
  const { answer: diff, error } = useQuery(PlanDiffDocument, { runId }, ({ run }) => run?.planDiff ?? null);
  if (error) {
    return (
      <p role="alert">
        {error.message} <code>{error.code}</code>
      </p>
    );
  }
  if (!diff) return <p className={css.quiet}>{diff === null ? planDiffWords.none : m.diff.loading}</p>;
  const same = diff.steps.length === 0 && diff.parts.length === 0;
  const more = diff.added + diff.removed + diff.changed - diff.steps.length;
  return (
    <div data-testid="plan-diff">
      <p>
        {planDiffWords.to(diff.previous.planVersion)}, {planDiffWords.ofRun}{" "}
        <Link to="/runs/$runId" params={{ runId: diff.previous.runId }} search={{}}>
          {shortId(diff.previous.runId)}
        </Link>
        : <strong>{planDiffWords.counts(diff.added, diff.removed, diff.changed)}</strong>
      </p>
      {same && <p className={css.quiet}>{planDiffWords.same}</p>}
      {diff.parts.length > 0 && <Parts parts={diff.parts} />}
      <ul className={css.steps}>
        {diff.steps.map(({ stepId, change, parts }) => (
          <li key={stepId} data-change={change}>
            <span className={css.sign} aria-hidden="true">
              {planDiffWords.sign[change]}
            </span>{" "}
            {change === "REMOVED" ? (
              <code>{stepId}</code>
            ) : (
              <Link
                from="/runs/$runId"
                to="."
                search={(old) => ({ ...old, ...RESET_STEP_PARAMS, step: stepId, tab: "inputs" })}
              >
                {stepId}
              </Link>
            )}{" "}
            <span className={css.quiet}>{planDiffWords.change[change]}</span>
            {parts.length > 0 && <Parts parts={parts} />}
          </li>
        ))}
      </ul>
      {more > 0 && <p className={css.quiet}>{planDiffWords.more(more)}</p>}
    </div>
  );
}

function Parts({ parts }: { parts: Diff["parts"] }) {
  return (
    <ul className={css.parts}>
      {parts.map(({ path, from, to }) => (
        <li key={path}>
          <code>{path}</code>:{" "}
          {from === null ? <span className={css.quiet}>{planDiffWords.nothing}</span> : <del>{from}</del>} →{" "}
          {to === null ? <span className={css.quiet}>{planDiffWords.nothing}</span> : <ins>{to}</ins>}
        </li>
      ))}
    </ul>
  );
}
