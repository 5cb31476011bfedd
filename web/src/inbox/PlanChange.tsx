import { Link } from "@tanstack/react-router";
import { PlanDiffDocument } from "../api/gen/graphql";
import { useQuery } from "../api/useQuery";
import { m } from "../messages";
import form from "../styles/Form.module.css";
import { plural } from "../format/format";

/**
 * The plan to approve in one line: its size and its differences to the last run; a plan without earlier runs is called
 * new.
 */
export function PlanChange({ runId }: { runId: string }) {
  const { answer: diff, error } = useQuery(PlanDiffDocument, { runId }, ({ run }) => run?.planDiff ?? null);
  if (error || diff === undefined) return <p className={form.hint}>{error ? error.message : m.diff.loading}</p>;
  return (
    <p data-testid="plan-change">
      {diff === null
        ? m.planDiff.none
        : `${plural(diff.total, "step")} · ${m.planDiff.to(diff.previous.planVersion)}: `}
      {diff !== null && (
        <Link to="/runs/$runId" params={{ runId }} search={{ view: "details" }}>
          {m.planDiff.counts(diff.added, diff.removed, diff.changed)} ▸
        </Link>
      )}
    </p>
  );
}
