// The tries of the platform within an attempt, and the compensation of the step, as the workers reported them.
import { StepEvidenceDocument, type StepEvidenceQuery } from "../api/gen/graphql";
import { useQuery } from "../api/useQuery";
import { m } from "../messages";
import { bytes } from "../format/format";
import { Problem } from "../page/Problem";
import { Skeleton } from "../ui/Page";
import { Time } from "../ui/Time";
import prose from "../styles/Prose.module.css";
import css from "./StepPanel.module.css";

type Evidence = NonNullable<NonNullable<StepEvidenceQuery["run"]>["step"]>["evidence"];
type Try = Evidence["tries"][number];

interface StepTriesProps {
  runId: string;
  stepId: string;
  /** The logical attempt; null before the first. */
  attempt: number | null;
}

export function StepTries({ runId, stepId, attempt }: StepTriesProps) {
  const {
    answer: evidence,
    error,
    again,
  } = useQuery(StepEvidenceDocument, { runId, stepId, attempt }, ({ run }) => run?.step?.evidence ?? null);
  if (error) return <Problem error={error} retry={again} />;
  if (evidence === undefined) return <Skeleton rows={2} label={m.step.tries.title} />;
  if (evidence === null) return null;
  return (
    <>
      {evidence.tries.length > 0 && (
        <>
          <h3>{m.step.tries.title}</h3>
          <TryTable tries={evidence.tries} />
        </>
      )}
      {evidence.tries.map(
        ({ engineAttemptId, stack }) =>
          stack !== null && (
            <pre
              key={engineAttemptId}
              className={prose.said}
              tabIndex={0}
              aria-label={m.step.tries.stack(engineAttemptId)}
            >
              {stack}
            </pre>
          ),
      )}
      <Compensation of={evidence.compensation} />
    </>
  );
}

function TryTable({ tries }: { tries: readonly Try[] }) {
  return (
    <table className={css.timing}>
      <thead>
        <tr>
          {m.step.tries.heads.map((head) => (
            <th key={head} scope="col">
              {head}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {tries.map((one) => (
          <tr key={one.engineAttemptId}>
            <th scope="row">{m.step.tries.name(one.engineAttemptId)}</th>
            <td>
              {m.step.tries.outcome(one.outcome)}
              {one.errorCode !== null && <span className={css.quiet}> {one.errorCode}</span>}
            </td>
            <td>{one.startedAt !== null && <Time at={Date.parse(one.startedAt)} format="full" />}</td>
            <td>{one.endedAt !== null && <Time at={Date.parse(one.endedAt)} format="full" />}</td>
            <td>{one.lastHeartbeatAt !== null && <Time at={Date.parse(one.lastHeartbeatAt)} format="clock" />}</td>
            <td>{one.signal ?? one.exitStatus}</td>
            <td>{one.logBytes !== null && bytes(one.logBytes)}</td>
            <td>{one.worker}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Compensation({ of }: { of: Evidence["compensation"] }) {
  if (of === null) return null;
  return (
    <>
      <h3>{m.step.tries.compensation}</h3>
      <p>
        {m.step.tries.compensated(of.compensated, of.attempts)} <Time at={Date.parse(of.endedAt)} format="full" />
        {of.errorCode !== null && (
          <>
            <br />
            {of.errorCode} {of.errorMessage}
          </>
        )}
      </p>
    </>
  );
}
