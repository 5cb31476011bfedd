import { Link } from "@tanstack/react-router";
import { type ReactNode, Suspense } from "react";
import { useReceipts } from "../receipts/context";
import { RunPlanRefDocument, type RunPlanRefQuery, RunTraceDocument } from "../api/gen/graphql";
import { queryOnce } from "../api/useQuery";
import { instant, type RunHeader, type Signal } from "../api/model";
import { m } from "../messages";
import { planDiff as planDiffWords, reference as words } from "../messages/planDiff";
import { StepTitle } from "../runstate/stepTitle";
import { CopyText } from "../ui/CopyText";
import { Time } from "../ui/Time";
import css from "./Details.module.css";
import { ended } from "../status/look";
import { lazyPart } from "../ui/lazyPart";
import { PlanDiff } from "../plan/PlanDiff";
import { PlanDocument } from "../plan/PlanDocument";
import { RunParams } from "../actions/RunParams";

const RunNotes = lazyPart(() => import("../notes/RunNotes").then((part) => part.RunNotes));
const Reruns = lazyPart(() => import("../history/Reruns").then((part) => part.Reruns));
const useTraceId = queryOnce(
  RunTraceDocument,
  ({ run }) => run?.traceId ?? null,
  ({ run }) => run !== null,
);
const usePlanRef = queryOnce(
  RunPlanRefDocument,
  ({ run }) => run?.plan ?? null,
  ({ run }) => run !== null,
);
const OVERLAYS: readonly Signal["type"][] = ["UPDATE_PARAMS", "INJECT_OVERRIDE", "UPDATE_TARGET"];

/** The parameters, plan and scope of the run, the changes made while it ran, its tags and notes, and its plan. */
export default function Details({ header }: { header: RunHeader }) {
  const facts = m.details;
  const traceId = useTraceId({ runId: header.runId });
  const reference = usePlanRef({ runId: header.runId });
  const rows: [string, ReactNode][] = [
    [facts.params, <RunParams key="params" runId={header.runId} />],
    [facts.runId, <code key="id">{header.runId}</code>],
    [facts.plan, `${header.plan.planId}@${header.plan.planVersion}`],
    [facts.sha256, <code key="sha">{header.plan.sha256}</code>],
    ...planRows(reference),
    [facts.place, `${header.tenantId} / ${header.projectId} / ${header.environmentId}`],
    [facts.startedBy, header.triggeredBy ?? facts.unknown],
    [facts.created, <Time key="created" at={header.createdAt} format="full" />],
    [
      facts.started,
      header.startedAt === null ? facts.notYet : <Time key="started" at={header.startedAt} format="full" />,
    ],
    [
      facts.ended,
      header.completedAt === null ? facts.notYet : <Time key="ended" at={header.completedAt} format="full" />,
    ],
    [facts.position, `seq ${header.runSeq}`],
    ...(header.engine
      ? [[facts.engine, facts.workflow(header.engine.provider, header.engine.workflowId)] as [string, ReactNode]]
      : []),
    ...(traceId
      ? [[facts.traceId, <CopyText key="trace" name={facts.traceId} text={traceId} />] as [string, ReactNode]]
      : []),
    ...(header.parentRunId
      ? [[facts.parent, <ToRun key="parent" runId={header.parentRunId} />] as [string, ReactNode]]
      : []),
    ...(ended(header)
      ? [[facts.reruns, <Reruns key="reruns" header={header} none={facts.noParams} />] as [string, ReactNode]]
      : []),
  ];
  return (
    <>
      <dl className={css.details}>
        {rows.map(([name, value]) => (
          <div key={name} className={css.pair}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <Overlays header={header} />
      <Suspense>
        <RunNotes runId={header.runId} />
      </Suspense>
      <section className={css.overlays}>
        <h2>{planDiffWords.title}</h2>
        <PlanDiff runId={header.runId} />
      </section>
      <PlanDocument header={header} />
    </>
  );
}

/** What the reference to the plan says, as far as it says anything. */
function planRows(plan: NonNullable<RunPlanRefQuery["run"]>["plan"] | null | undefined): [string, ReactNode][] {
  if (!plan) return [];
  const { uri, mirrors, answeredBy, compression, expiresAt, migrationHint } = plan;
  const rows: [string, ReactNode][] = [
    [words.schema, plan.schemaEnd === null ? null : words.deprecated(plan.schemaVersion, plan.schemaEnd)],
    // Of a plan that came with the request of the run the address says nothing.
    [words.uri, uri !== null && uri.startsWith("dvt:") ? null : uri],
    [words.mirrors, mirrors.join(", ")],
    [words.answeredBy, answeredBy],
    [words.compression, compression === "none" ? null : compression],
    [words.expires, expiresAt === null ? null : <Time key="expires" at={instant(expiresAt)} format="full" />],
    [words.evolution, plan.schemaEvolutionPath],
    [
      words.migration,
      migrationHint &&
        words.migrates(migrationHint.sourceVersion, migrationHint.targetVersion, migrationHint.transformScript),
    ],
  ];
  return rows.filter(([, value]) => value !== null && value !== "");
}

function ToRun({ runId }: { runId: string }) {
  return (
    <Link to="/runs/$runId" params={{ runId }} search={{}}>
      {runId}
    </Link>
  );
}

/**
 * Changes of parameters, inputs and targets that were applied up to the shown position. The event has their content.
 */
function Overlays({ header }: { header: RunHeader }) {
  const applied = useReceipts().filter(
    (signal) =>
      signal.runId === header.runId &&
      OVERLAYS.includes(signal.type) &&
      signal.appliedSeq !== null &&
      signal.appliedSeq <= header.runSeq,
  );
  if (applied.length === 0) return null;
  return (
    <section className={css.overlays}>
      <h2>{m.details.overlays}</h2>
      <ul>
        {applied.map((signal) => (
          <li key={signal.signalId}>
            <Link
              from="/runs/$runId"
              to="."
              search={(old) => ({ ...old, view: "events", seq: signal.appliedSeq ?? undefined, types: undefined })}
            >
              seq {signal.appliedSeq}
            </Link>{" "}
            {signal.type === "UNKNOWN" ? signal.typeRaw : m.action[signal.type]}{" "}
            {signal.stepId && <StepTitle stepId={signal.stepId} />} {m.receipt.by(signal.actor)}
            {signal.reason && `: “${signal.reason}”`}
          </li>
        ))}
      </ul>
    </section>
  );
}
