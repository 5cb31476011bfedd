import { Link } from "@tanstack/react-router";
import { StepInputsDocument, type StepInputsQuery } from "../api/gen/graphql";
import { instant } from "../api/model";
import { useQuery } from "../api/useQuery";
import { m } from "../messages";
import { nameOf, secretNames } from "./secrets";
import { Problem } from "../page/Problem";
import { Skeleton } from "../ui/Page";
import { Time } from "../ui/Time";
import prose from "../styles/Prose.module.css";
import css from "./StepPanel.module.css";

type StepSecret = NonNullable<NonNullable<NonNullable<StepInputsQuery["run"]>["step"]>["secrets"]>[number];

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
  } = useQuery(StepInputsDocument, { runId, stepId, attempt }, ({ run }) =>
    run?.step?.inputs ? { ...run.step.inputs, reads: run.step.secrets ?? [] } : null,
  );
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
      <Secrets reads={inputs.reads} names={secretNames(inputs)} />
    </div>
  );
}

/** The secrets that the step names, and what became of each in the attempt; never their values. */
function Secrets({ reads, names }: { reads: readonly StepSecret[]; names: readonly string[] }) {
  if (names.length === 0) return null;
  const known = new Set(reads.map(nameOf));
  return (
    <>
      <h3>{m.step.secrets}</h3>
      <p>{m.step.secretsRead}</p>
      <ul className={css.artifacts}>
        {reads.map((secret) => (
          <li key={`${nameOf(secret)} ${secret.as}`}>
            <code>{nameOf(secret)}</code> {m.step.secretAs(secret.as)}: <Outcome of={secret} />
          </li>
        ))}
        {names
          .filter((name) => !known.has(name))
          .map((name) => (
            <li key={name}>
              <code>{name}</code>
            </li>
          ))}
      </ul>
    </>
  );
}

function Outcome({ of }: { of: StepSecret }) {
  if (of.readAt === null) return m.step.secretNotRead;
  return (
    <>
      {of.code === null
        ? m.step.secretFrom(of.answeredBy ?? of.provider, of.answeredVersion, of.cached === true)
        : m.step.secretFailed(of.code)}{" "}
      <Time at={instant(of.readAt)} format="full" />
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
