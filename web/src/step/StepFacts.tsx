// The tabs of a step that only show facts.
import { Link } from "@tanstack/react-router";
import { Fragment, type ReactNode } from "react";
import { RESET_STEP_PARAMS } from "../address/views";
import type { Step } from "../api/model";
import { m } from "../messages";
import { attemptName, bytes, duration } from "../format/format";
import { StepTitle } from "../runstate/stepTitle";
import { Time } from "../ui/Time";
import prose from "../styles/Prose.module.css";
import { artifactKind, ArtifactLinks, Digest } from "./Artifact";
import css from "./StepPanel.module.css";

/** The result of the step, which is known for the latest attempt only. */
export function StepOutput({ step, current }: { step: Step; current: boolean }) {
  if (step.result === null || !current) return <p className={css.quiet}>{m.step.noOutput}</p>;
  return <pre className={prose.said}>{JSON.stringify(step.result, null, 2)}</pre>;
}

export function StepArtifacts({ runId, artifacts }: { runId: string; artifacts: Step["artifacts"] }) {
  if (artifacts.length === 0) return <p className={css.quiet}>{m.step.noArtifacts}</p>;
  return (
    <ul className={css.artifacts}>
      {artifacts.map((artifact) => (
        <li key={artifact.uri}>
          <strong>{artifactKind(artifact.kind)}</strong> {artifact.sizeBytes !== null && bytes(artifact.sizeBytes)}
          <br />
          <ArtifactLinks runId={runId} artifact={artifact} />
          {artifact.sha256 && (
            <>
              <br />
              <span className={css.quiet}>
                sha256 <Digest sha256={artifact.sha256} />
              </span>
            </>
          )}
        </li>
      ))}
    </ul>
  );
}

/** The start and end of each attempt, by the log. */
export function StepTiming({ step }: { step: Step }) {
  if (step.attempts.length === 0) return <p className={css.quiet}>{m.step.noAttempt}</p>;
  return (
    <table className={css.timing}>
      <thead>
        <tr>
          {m.step.timing.map((head) => (
            <th key={head} scope="col">
              {head}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {step.attempts.map((attempt) => (
          <tr key={attempt.logicalAttemptId}>
            <th scope="row">{attemptName(attempt.logicalAttemptId)}</th>
            <td>
              <At at={attempt.startedAt} seq={attempt.startedSeq} />
            </td>
            <td>
              <At at={attempt.completedAt} seq={attempt.endedSeq} />
            </td>
            <td>{attempt.durationMs === null ? "" : duration(attempt.durationMs)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function At({ at, seq }: { at: number | null; seq: number | null }) {
  if (at === null) return null;
  return (
    <>
      <Time at={at} format="full" /> {seq !== null && <span className={css.quiet}>seq {seq}</span>}
    </>
  );
}

/** The task queue and the dependencies of the step. */
export function StepWorker({ step }: { step: Step }) {
  const facts: [string, ReactNode][] = [
    [m.step.facts.id, <code key="id">{step.stepId}</code>],
    [
      m.step.facts.dependsOn,
      step.dependsOn.length === 0
        ? m.step.facts.nothing
        : step.dependsOn.map((id, i) => (
            <Fragment key={id}>
              {i > 0 && ", "}
              <Link
                from="/runs/$runId"
                to="."
                search={(old) => ({ ...old, ...RESET_STEP_PARAMS, step: id, tab: "worker" })}
                title={id}
              >
                <StepTitle stepId={id} />
              </Link>
            </Fragment>
          )),
    ],
    ...(step.group ? [[m.step.facts.group, step.group] as [string, ReactNode]] : []),
    ...(step.taskQueue ? [[m.step.facts.queue, step.taskQueue] as [string, ReactNode]] : []),
    ...(step.resourceClass ? [[m.step.facts.resources, step.resourceClass] as [string, ReactNode]] : []),
    ...(step.engineAttemptId === null
      ? []
      : [[m.step.facts.engineTry, String(step.engineAttemptId)] as [string, ReactNode]]),
    [m.step.facts.changed, `seq ${step.changedSeq}`],
  ];
  return (
    <dl className={css.about}>
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
