// What a person who decides about a run is asked to let run: its size, its differences to the last run, its parameters
// and the approvals so far.
import { Link } from "@tanstack/react-router";
import { type RunRequestQuery, RunRequestDocument } from "../api/gen/graphql";
import { instant } from "../api/model";
import { useQuery } from "../api/useQuery";
import { ticking } from "../format/format";
import { m } from "../messages";
import css from "../styles/Confirm.module.css";
import { useTick } from "../ui/Time";
import type { AvailableActions } from "./useAvailability";

type Request = NonNullable<RunRequestQuery["run"]>;
export type Approval = NonNullable<AvailableActions["approval"]>;

const PARAMS_SHOWN = 20;

/** "60 steps · compared with 1.4.2: +3 −1 ~5". */
export function sizeInWords({ request, planDiff }: Pick<Request, "request" | "planDiff">): string {
  if (request.steps === null) return m.inbox.stepsUnknown;
  const { added = 0, removed = 0, changed = 0, previous } = planDiff ?? {};
  const change = !previous
    ? m.inbox.firstRun
    : added + removed + changed === 0
      ? m.inbox.unchanged(previous.planVersion)
      : m.inbox.change(previous.planVersion, added, removed, changed);
  return `${m.inbox.steps(request.steps)} · ${change}`;
}

/** "1 of 2 approvals (ben) · cancelled in 23 h 59 m unless approved". */
export function approvalInWords({ required, expiresAt, decisions }: Approval, now: number): string {
  const said = decisions.filter(({ decision }) => decision === "APPROVE").map(({ principal }) => principal);
  const left = expiresAt === null ? null : instant(expiresAt) - now;
  return [
    m.inbox.approvals(said.length, required, said.join(", ")),
    ...(left === null ? [] : [left > 0 ? m.inbox.expires(ticking(left)) : m.inbox.expired]),
  ].join(" · ");
}

/** The approvals so far, with a clock. */
export function ApprovalCount({ approval }: { approval: Approval }) {
  useTick(1_000, approval.expiresAt !== null);
  return <span data-testid="approvals">{approvalInWords(approval, Date.now())}</span>;
}

interface RunRequestProps {
  runId: string;
  /** Also shows the parameters. */
  whole?: boolean;
}

export function RunRequest({ runId, whole = false }: RunRequestProps) {
  const { answer, error } = useQuery(RunRequestDocument, { runId }, ({ run }) => run);
  if (!answer) return <p className={css.hint}>{error ? error.message : m.diff.loading}</p>;
  const params = Object.entries((answer.request.params ?? {}) as Record<string, unknown>);
  return (
    <>
      <p data-testid="plan-change">
        {sizeInWords(answer)}{" "}
        <Link to="/runs/$runId" params={{ runId }} search={{ view: "details" }}>
          {m.inbox.toPlan}
        </Link>
      </p>
      {whole && params.length > 0 && (
        <div>
          <p className={css.hint}>{m.inbox.params}</p>
          <dl className={css.params}>
            {params.slice(0, PARAMS_SHOWN).map(([name, value]) => (
              <div key={name}>
                <dt>{name}</dt>
                <dd>{typeof value === "string" ? value : JSON.stringify(value)}</dd>
              </div>
            ))}
          </dl>
          {params.length > PARAMS_SHOWN && (
            <p className={css.hint}>{m.confirm.moreParams(params.length - PARAMS_SHOWN)}</p>
          )}
        </div>
      )}
    </>
  );
}
