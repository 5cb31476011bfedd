import { Link } from "@tanstack/react-router";
import { useReceipts } from "../actions/context";
import { m } from "../messages";
import { useRunStore } from "../runs/context";
import { planStep, usePlan } from "../runs/plan";
import { Problem, Skeleton } from "../ui/Page";
import prose from "../ui/Prose.module.css";
import css from "./StepPanel.module.css";

/** What the plan gives the step, and that it was changed on the way. */
export default function StepInputs({ runId, stepId }: { runId: string; stepId: string }) {
  const { document, error, again } = usePlan(runId);
  if (error) return <Problem error={error} retry={again} />;
  if (document === undefined) return <Skeleton rows={4} label={m.step.tabs.inputs} />;
  const step = planStep(document, stepId);
  if (step === null) return <p className={css.quiet}>{m.step.noInputs}</p>;
  return (
    <div className={css.body}>
      <Changed runId={runId} stepId={stepId} />
      <pre className={prose.said} tabIndex={0} aria-label={m.step.tabs.inputs}>
        {JSON.stringify(step, null, 2)}
      </pre>
    </div>
  );
}

function Changed({ runId, stepId }: { runId: string; stepId: string }) {
  const store = useRunStore();
  const changed = useReceipts().filter(
    ({ runId: of, type, stepId: step, appliedSeq }) =>
      of === runId && (type === "UPDATE_PARAMS" || (type === "INJECT_OVERRIDE" && step === stepId)) && appliedSeq !== null && appliedSeq <= store.seq,
  );
  return changed.map(({ signalId, type, appliedSeq, actor }) => (
    <p key={signalId}>
      {m.step.changed}{" "}
      <Link from="/runs/$runId" to="." search={(old) => ({ ...old, view: "events", seq: appliedSeq ?? undefined, types: undefined })}>
        seq {appliedSeq}
      </Link>{" "}
      {type} {m.receipt.by(actor)}
    </p>
  ));
}
