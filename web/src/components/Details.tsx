import type { ReactNode } from "react";
import type { RunHeader } from "../api/model";
import { Time } from "../ui/Time";
import css from "./Details.module.css";

export function Details({ header }: { header: RunHeader }) {
  const rows: [string, ReactNode][] = [
    ["Run id", <code key="id">{header.runId}</code>],
    ["Plan", `${header.plan.planId}@${header.plan.planVersion}`],
    ["Plan sha256", <code key="sha">{header.plan.sha256}</code>],
    ["Tenant / project / environment", `${header.tenantId} / ${header.projectId} / ${header.environmentId}`],
    ["Started by", header.triggeredBy ?? "unknown"],
    ["Created", <Time key="created" at={header.createdAt} format="full" />],
    ["Started", header.startedAt === null ? "not yet" : <Time key="started" at={header.startedAt} format="full" />],
    ["Ended", header.completedAt === null ? "not yet" : <Time key="ended" at={header.completedAt} format="full" />],
    ["Position", `seq ${header.runSeq}`],
    ...(header.engine ? [["Engine", `${header.engine.provider}, workflow ${header.engine.workflowId}`] as [string, ReactNode]] : []),
    ...(header.parentRunId ? [["Parent run", header.parentRunId] as [string, ReactNode]] : []),
  ];
  return (
    <dl className={css.details}>
      {rows.map(([name, value]) => (
        <div key={name} className={css.pair}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
