import { Link } from "@tanstack/react-router";
import { StepInputsDocument } from "../api/gen/graphql";
import { useQuery } from "../api/useQuery";
import { m } from "../messages";
import { secretNames } from "./secrets";
import { Problem } from "../page/Problem";
import { Skeleton } from "../ui/Page";
import prose from "../styles/Prose.module.css";
import css from "./StepPanel.module.css";

interface StepInputsProps {
  runId: string;
  stepId: string;
  /** The logical attempt; null before the first. */
  attempt: number | null;
}

/** The inputs of the attempt, from the plan and the run, with the changes made while it ran. */
export default function StepInputs({ runId, stepId, attempt }: StepInputsProps) {
  const {
    answer: inputs,
    error,
    again,
  } = useQuery(StepInputsDocument, { runId, stepId, attempt }, ({ run }) => run?.step?.inputs ?? null);
  if (error) return <Problem error={error} retry={again} />;
  if (inputs === undefined) return <Skeleton rows={4} label={m.step.tabs.inputs} />;
  if (inputs === null) return <p className={css.quiet}>{m.step.noInputs}</p>;
  return (
    <div className={css.body}>
      {inputs.changes.map(({ signalId, type, appliedSeq, actor, reason }) => (
        <p key={signalId}>
          {m.step.changed}{" "}
          <Link
            from="/runs/$runId"
            to="."
            search={(old) => ({ ...old, view: "events", seq: appliedSeq ?? undefined, types: undefined })}
          >
            seq {appliedSeq}
          </Link>{" "}
          {type} {m.receipt.by(actor)}
          {reason && `: “${reason}”`}
        </p>
      ))}
      <Json label={m.step.tabs.inputs} value={inputs.inputs} />
      {inputs.params !== null && (
        <>
          <h3>{m.step.params}</h3>
          <Json label={m.step.params} value={inputs.params} />
        </>
      )}
      <Secrets names={secretNames(inputs)} />
    </div>
  );
}

/** The secrets that the step names, without their values. */
function Secrets({ names }: { names: readonly string[] }) {
  if (names.length === 0) return null;
  return (
    <>
      <h3>{m.step.secrets}</h3>
      <p>{m.step.secretsRead}</p>
      <ul className={css.artifacts}>
        {names.map((name) => (
          <li key={name}>
            <code>{name}</code>
          </li>
        ))}
      </ul>
    </>
  );
}

function Json({ label, value }: { label: string; value: unknown }) {
  return (
    <pre className={prose.said} tabIndex={0} aria-label={label}>
      {JSON.stringify(value, null, 2)}
    </pre>
  );
}
