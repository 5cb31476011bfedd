import { CircleCheck, CircleQuestionMark, OctagonX, SkipForward, TriangleAlert } from "lucide-react";
import { useEffect, useRef } from "react";
import { StepNodesDocument, type StepNodesQuery } from "../api/gen/graphql";
import { useConnection } from "../api/useConnection";
import { m } from "../messages";
import { DBT_TONES } from "./dbt";
import { Button } from "../ui/Button";
import { count, duration } from "../format/format";
import { Problem } from "../page/Problem";
import { Skeleton } from "../ui/Page";
import type { Look, Tone } from "../ui/tones";
import pills from "../styles/Pill.module.css";
import prose from "../styles/Prose.module.css";
import css from "./StepModels.module.css";
import type { StepMove } from "./stepPlace";

const ICONS: Partial<Record<Tone, Look["icon"]>> = {
  success: CircleCheck,
  failed: OctagonX,
  person: TriangleAlert,
  skipped: SkipForward,
};

/** A status of dbt, as icon and word. */
function Status({ status }: { status: string }) {
  const tone = DBT_TONES[status];
  const Icon = (tone && ICONS[tone]) ?? CircleQuestionMark;
  return (
    <span data-tone={tone} className={css.word}>
      <Icon size={14} aria-hidden="true" /> {m.step.models.word(status)}
    </span>
  );
}

type Nodes = NonNullable<NonNullable<NonNullable<StepNodesQuery["run"]>["step"]>["dbtNodes"]>;
type Node = Nodes["edges"][number]["node"];

interface StepModelsProps {
  runId: string;
  stepId: string;
  attempt: number;
  /** The listed statuses of dbt; empty lists all. */
  statuses: readonly string[];
  /** The node whose compiled SQL is open and scrolled to. */
  sql: string | null;
  open: (to: StepMove) => void;
}

/** The results of dbt's models and tests. */
export default function StepModels({ runId, stepId, attempt, statuses, sql, open }: StepModelsProps) {
  const {
    rows,
    first: nodes,
    error,
    hasMore,
    loading,
    more,
    refresh,
  } = useConnection(
    StepNodesDocument,
    { runId, stepId, attempt: attempt === 0 ? null : attempt, status: statuses.length === 0 ? null : [...statuses] },
    ({ run }): Nodes | null => run?.step?.dbtNodes ?? null,
  );
  if (error) return <Problem error={error} retry={refresh} />;
  if (nodes === undefined || rows === null) return <Skeleton rows={4} label={m.step.tabs.models} />;
  if (nodes === null) return <p className={css.quiet}>{m.step.models.none}</p>;
  return (
    <div className={css.models}>
      <div className={pills.pills} role="group" aria-label={m.step.models.filter}>
        <Button pressed={statuses.length === 0} onClick={() => open({ nodes: undefined, sql: undefined })}>
          {m.step.models.all}
        </Button>
        {nodes.byStatus.map((entry) => (
          <Button
            key={entry.status}
            pressed={statuses.includes(entry.status)}
            onClick={() => open({ nodes: [entry.status], sql: undefined })}
          >
            <Status status={entry.status} /> {count(entry.count)}
          </Button>
        ))}
      </div>
      <ul className={css.list}>
        {rows.map((node) => (
          <Entry key={node.uniqueId} node={node} open={node.uniqueId === sql} />
        ))}
      </ul>
      {hasMore && (
        <Button onClick={more} refusal={loading ? m.sync.LOADING : null}>
          {m.step.models.more(count(nodes.total))}
        </Button>
      )}
    </div>
  );
}

function Entry({ node, open }: { node: Node; open: boolean }) {
  const compiled = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    if (open) compiled.current?.scrollIntoView({ block: "nearest" });
  }, [open]);
  const plain = DBT_TONES[node.status] === "success";
  const facts = [
    node.resourceType,
    duration(node.executionTimeMs),
    node.rowsAffected === null ? null : m.step.models.rows(count(node.rowsAffected)),
    node.failures ? m.step.models.failures(count(node.failures)) : null,
    // Adapters say OK of what went well.
    plain ? node.message : null,
  ].filter((fact) => fact !== null);
  return (
    <li className={css.entry} data-node={node.uniqueId}>
      <p>
        <Status status={node.status} /> <strong title={node.uniqueId}>{node.name}</strong>{" "}
        <span className={css.quiet}>{facts.join(" · ")}</span>
      </p>
      {node.message && !plain && <pre className={`${prose.said} ${css.message}`}>{node.message}</pre>}
      {node.compiledSql && (
        <details ref={compiled} open={open}>
          <summary>{m.step.models.sql}</summary>
          <pre className={`${prose.said} ${css.message}`} tabIndex={0} aria-label={m.run.sqlOf(node.name)}>
            {node.compiledSql}
          </pre>
          {node.compiledSqlCut && <p className={css.quiet}>{m.step.models.cut}</p>}
        </details>
      )}
    </li>
  );
}
