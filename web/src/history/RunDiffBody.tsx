import { Link } from "@tanstack/react-router";
import { RunDiffDocument } from "../api/gen/graphql";
import { type RunEvent, toEvent } from "../api/model";
import { useQuery } from "../api/useQuery";
import { m } from "../messages";
import { summaryIn } from "../events/summary";
import { attemptName } from "../format/format";
import { useRunStore } from "../runstate/context";
import { StepTitle } from "../runstate/stepTitle";
import { runLook, stepLook } from "../status/look";
import { StatusBadge } from "../ui/Status";
import { Time } from "../ui/Time";
import css from "./RunDiffBody.module.css";

export interface RunDiffProps {
  runId: string;
  from: number;
  to: number;
  /** The most decisions, and the most steps, that are named. */
  most: number;
}

export function RunDiffBody({ runId, from, to, most }: RunDiffProps) {
  // While the log is played, the former comparison stays until the next arrives.
  const { last: diff, error } = useQuery(RunDiffDocument, { runId, a: from, b: to }, ({ runDiff }) => runDiff);
  if (error) {
    return (
      <p role="alert">
        {error.message} <code>{error.code}</code>
      </p>
    );
  }
  if (!diff) return <p role="status">{m.diff.loading}</p>;
  const before = runLook(diff.from);
  const after = runLook(diff.to);
  const still = diff.steps.length === 0 && diff.decisions.length === 0;
  return (
    <div data-testid="diff">
      {before.word !== after.word && (
        <p className={css.line}>
          <StatusBadge look={before} /> → <StatusBadge look={after} />
        </p>
      )}
      {still && <p>{m.diff.same}</p>}
      <ul className={css.list}>
        {diff.decisions.slice(-most).map((event) => (
          <Decided key={event.runSeq} event={toEvent(event)} />
        ))}
        {diff.steps.slice(0, most).map(({ stepId, from: was, to: is }) => (
          <li key={stepId} className={css.line}>
            <Link from="/runs/$runId" to="." search={(old) => ({ ...old, step: stepId })}>
              <StepTitle stepId={stepId} />
            </Link>
            <StatusBadge look={stepLook(was ?? { status: "PENDING", statusRaw: "PENDING", pendingRetry: false })} /> →{" "}
            <StatusBadge look={stepLook(is)} />
            {is.logicalAttemptId > Math.max(1, was?.logicalAttemptId ?? 0) && attemptName(is.logicalAttemptId)}
          </li>
        ))}
      </ul>
      {diff.steps.length > most && <p>{m.confirm.moreChanges(diff.steps.length - most)}</p>}
    </div>
  );
}

function Decided({ event }: { event: RunEvent }) {
  const summary = summaryIn(useRunStore(), event);
  return (
    <li className={css.line}>
      {summary} <Time at={event.persistedAt} format="precise" /> seq {event.runSeq}
    </li>
  );
}
