// What became of runs about which the viewer has decided.
import { Link } from "@tanstack/react-router";
import { DecisionsDocument, type DecisionsQuery, type ManualOutcome } from "../api/gen/graphql";
import { instant } from "../api/model";
import { useQuery } from "../api/useQuery";
import { shortId } from "../format/format";
import { m } from "../messages";
import { Env } from "../ui/Env";
import { Time } from "../ui/Time";
import css from "./Inbox.module.css";

export type DecidedRun = DecisionsQuery["viewer"]["decisions"][number];

/**
 * Describes the run's state after the viewer's decision: rejected, approved, expired, or how many approvals are
 * missing.
 */
export function becameOf({ approval: { required, expiresAt, decisions } }: Pick<DecidedRun, "approval">): string {
  const rejected = decisions.find(({ decision }) => decision === "REJECT");
  if (rejected) return m.inbox.became.rejected(rejected.principal);
  if (decisions.length >= required) return m.inbox.became.approved(required);
  return expiresAt === null ? m.inbox.became.ended : m.inbox.became.waiting(decisions.length, required);
}

export function Decided({ decided }: { decided: DecidedRun }) {
  return (
    <li className={css.item} data-decided={decided.runId}>
      <div className={css.what}>
        <p className={css.name}>
          <span>{m.inbox.decided[decided.decision]}</span>
          <Link to="/runs/$runId" params={{ runId: decided.runId }} title={decided.runId}>
            {decided.planId}@{decided.planVersion} <code>{shortId(decided.runId)}</code>
          </Link>
        </p>
        <p className={css.where}>
          {decided.projectId} / <Env id={decided.environmentId} /> · <Time at={instant(decided.at)} /> ·{" "}
          {becameOf(decided)}
        </p>
      </div>
    </li>
  );
}

interface LastDecisionProps {
  runId: string;
  /** Nobody is left who could give the missing approvals. */
  stuck: boolean;
  refetchOn: unknown;
}

/** Says once what the decision has done, so that nobody has to look for the item that left the list. */
export function LastDecision({ runId, stuck, refetchOn }: LastDecisionProps) {
  const { last } = useQuery(DecisionsDocument, {}, (result) => result.viewer.decisions, { version: runId, refetchOn });
  const decided = last?.find((one) => one.runId === runId);
  return (
    <p role="status" className={css.last}>
      {decided && `${m.inbox.decided[decided.decision]} ${decided.planId} ${shortId(runId)}. ${becameOf(decided)}.`}
      {decided && stuck && ` ${m.inbox.stuck}`}
    </p>
  );
}

/** Says once what happens after a manual step was completed. */
export function LastCompletion({ stepId, outcome }: { stepId: string; outcome: ManualOutcome }) {
  return (
    <p role="status" className={css.last}>
      {m.inbox.completed(stepId, outcome)}
    </p>
  );
}
