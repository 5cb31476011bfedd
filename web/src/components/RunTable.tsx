import { Link } from "@tanstack/react-router";
import { memo } from "react";
import type { RunRow } from "../api/model";
import { m } from "../messages";
import type { ListRow } from "../runs/list";
import { shortId } from "../ui/format";
import { ended, runLook } from "../ui/look";
import { StatusBadge } from "../ui/Status";
import { Time } from "../ui/Time";
import { took } from "./RunHeader";
import css from "./RunTable.module.css";

interface RunTableProps {
  rows: readonly ListRow[];
  /** The server's time, for runs that still move. */
  now: number;
  frozen: boolean;
}

export function RunTable({ rows, now, frozen }: RunTableProps) {
  return (
    <div className={css.scroll}>
      <table className={css.table}>
        <thead>
          <tr>
            <th scope="col">Status</th>
            <th scope="col">Plan · run</th>
            <th scope="col">Environment</th>
            <th scope="col">Steps</th>
            <th scope="col">Started</th>
            <th scope="col">Took</th>
            <th scope="col">By</th>
            <th scope="col">Cause</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <Row key={row.run.runId} run={row.run} left={row.left} took={took(row.run, ended(row.run) ? 0 : now, frozen)} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

const Row = memo(function Row({ run, left, took }: { run: RunRow; left: boolean; took: string | null }) {
  return (
    <tr className={css.row} data-left={left || undefined} data-run={run.runId}>
      <td className={css.status}>
        <StatusBadge look={runLook(run)} />
      </td>
      <td className={css.name}>
        <Link to="/runs/$runId" params={{ runId: run.runId }} className={css.link} title={run.runId}>
          {run.plan.planId}
          <span className={css.quiet}>@{run.plan.planVersion}</span> <code className={css.quiet}>{shortId(run.runId)}</code>
        </Link>
        {left && <span className={css.left}>{m.runs.left}</span>}
      </td>
      <td>{run.environmentId}</td>
      <td>
        <Progress counts={run.stepCounts} />
      </td>
      <td>
        <Time at={run.startedAt ?? run.createdAt} />
      </td>
      <td>{took}</td>
      <td className={css.quiet}>{run.triggeredBy}</td>
      <td className={css.cause}>{causeWords(run)}</td>
    </tr>
  );
});

function causeWords(run: RunRow): string | null {
  if (run.rootCause && (run.status === "FAILED" || run.failedSteps > 0)) {
    return `${run.rootCause.stepId ? `${run.rootCause.stepId}: ` : ""}${run.rootCause.code}`;
  }
  if (run.pause) return m.run.pausedBy(run.pause.requestedBy ?? "?", run.pause.reason);
  return null;
}

type Counts = RunRow["stepCounts"];
const PARTS = ["success", "skipped", "failed", "running"] as const satisfies readonly (keyof Counts & string)[];

function Progress({ counts }: { counts: Counts }) {
  const done = counts.success + counts.skipped;
  const text = `${done}/${counts.total}${counts.failed > 0 ? ` ${counts.failed}✕` : ""}`;
  let x = 0;
  return (
    <span className={css.progress}>
      <svg className={css.bar} width="72" height="8" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
        <rect className={css.rest} width="100" height="8" />
        {PARTS.map((part) => {
          const width = counts.total === 0 ? 0 : (counts[part] / counts.total) * 100;
          const at = x;
          x += width;
          return <rect key={part} data-part={part} x={at} width={width} height="8" />;
        })}
      </svg>
      {counts.total > 0 ? text : "–"}
    </span>
  );
}

