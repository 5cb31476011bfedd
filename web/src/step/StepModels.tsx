import { useEffect, useMemo, useRef } from "react";
import { StepNodesDocument, type StepNodesQuery } from "../api/gen/graphql";
import { useConnection } from "../api/useConnection";
import type { Step } from "../api/model";
import { m } from "../messages";
import { models } from "../messages/artifacts";
import { useStep } from "../runstate/context";
import { countedRows, DBT_TONES } from "./dbt";
import { LiveNodes } from "./LiveNodes";
import { type ManifestNode, nodeName } from "./manifest";
import { Status } from "./NodeStatus";
import { RetryNodes } from "./RetryNodes";
import { type ManifestState, useManifest } from "./useManifest";
import { Button } from "../ui/Button";
import { bytes, count, duration } from "../format/format";
import { Problem } from "../page/Problem";
import { Skeleton } from "../ui/Page";
import type { Tone } from "../ui/tones";
import pills from "../styles/Pill.module.css";
import prose from "../styles/Prose.module.css";
import css from "./StepModels.module.css";
import type { StepMove } from "./stepPlace";

type Nodes = NonNullable<NonNullable<NonNullable<StepNodesQuery["run"]>["step"]>["dbtNodes"]>;
type Node = Nodes["edges"][number]["node"];

const NO_ARTIFACTS: Step["artifacts"] = [];
const NAMED = 4;
const ORDER: readonly (Tone | undefined)[] = ["failed", "person", "skipped"];

/** Failed nodes, then warnings and skipped ones, then the others in the order in which dbt finished them. */
function failedFirst(nodes: readonly Node[]): readonly Node[] {
  const rank = ({ status }: Node): number => {
    const at = ORDER.indexOf(DBT_TONES[status]);
    return at < 0 ? ORDER.length : at;
  };
  return nodes.toSorted((a, b) => rank(a) - rank(b));
}

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

/** The results of dbt's models and tests, with what the manifest and the step's own result add. */
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
  const step = useStep(stepId);
  // The step has the artifacts and the result of its latest attempt alone.
  const latest = step !== undefined && (attempt === 0 || attempt === step.logicalAttemptId);
  const lineage = useManifest(runId, latest ? step.artifacts : NO_ARTIFACTS);
  const counts = useMemo(() => countedRows(latest ? step.result : null), [latest, step?.result]);
  if (error) return <Problem error={error} retry={refresh} />;
  if (nodes === undefined || rows === null) return <Skeleton rows={4} label={m.step.tabs.models} />;
  const retry = latest && step.status === "FAILED" && step.nodeCounts && step.nodeCounts.failed > 0 && (
    <RetryNodes runId={runId} step={step} failed={step.nodeCounts.failed} />
  );
  // After a retry of nodes, the results have only the nodes that ran again; the log has all of them.
  const partial = nodes?.byStatus.reduce((sum, { count: n }) => sum + n, 0) ?? 0;
  if (latest && step.nodeCounts && partial < step.nodeCounts.total - step.nodeCounts.running)
    return (
      <>
        {retry}
        <LiveNodes
          runId={runId}
          stepId={stepId}
          attempt={attempt === 0 ? null : attempt}
          current={step.logicalAttemptId}
          counts={step.nodeCounts}
          changedSeq={step.changedSeq}
        />
      </>
    );
  if (nodes === null) return <p className={css.quiet}>{models.none}</p>;
  return (
    <div className={css.models}>
      {retry}
      <div className={pills.pills} role="group" aria-label={models.filter}>
        <Button pressed={statuses.length === 0} onClick={() => open({ nodes: undefined, sql: undefined })}>
          {models.all}
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
        {(hasMore ? rows : failedFirst(rows)).map((node) => (
          <Entry
            key={node.uniqueId}
            node={node}
            known={lineage.manifest?.get(node.uniqueId)}
            counted={counts.get(node.name)}
            open={node.uniqueId === sql}
          />
        ))}
      </ul>
      {hasMore && (
        <Button onClick={more} refusal={loading ? m.sync.LOADING : null}>
          {models.more(count(nodes.total))}
        </Button>
      )}
      <Missing
        lineage={lineage}
        rows={
          rows.some(({ resourceType }) => resourceType === "model") &&
          rows.every((node) => node.rowsAffected === null && !counts.has(node.name))
        }
      />
    </div>
  );
}

interface EntryProps {
  node: Node;
  /** The node's entry in the manifest. */
  known: ManifestNode | undefined;
  /** Its rows, as the step counted them; undefined when it did not. */
  counted: number | undefined;
  open: boolean;
}

/** A node: what became of it, its rows and time, its error, what it reads and who reads it, and its SQL. */
function Entry({ node, known, counted, open }: EntryProps) {
  const compiled = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    if (open) compiled.current?.scrollIntoView({ block: "nearest" });
  }, [open]);
  const plain = DBT_TONES[node.status] === "success";
  const rows = node.rowsAffected ?? counted ?? null;
  const facts = [
    models.types[node.resourceType] ?? node.resourceType,
    node.resourceType === "operation" ? null : (known?.materialized ?? null),
    known?.file ?? null,
    // Most adapters say OK, or that it passed, of what went well.
    plain && node.message !== null && !/^OK$|passed$/i.test(node.message) ? node.message : null,
  ].filter((fact) => fact !== null);
  return (
    <li className={css.entry} data-node={node.uniqueId}>
      <p className={css.line}>
        <Status status={node.status} />
        <strong className={css.name} title={node.uniqueId}>
          {node.name}
        </strong>
        {rows !== null && <span>{models.rows(rows)}</span>}
        {node.failures ? <span>{models.failures(node.failures)}</span> : null}
        {node.status !== "skipped" && <span className={css.took}>{duration(node.executionTimeMs)}</span>}
      </p>
      <p className={css.quiet}>{facts.join(" · ")}</p>
      {known && <Lineage known={known} />}
      {node.status === "skipped" && !node.message && <p className={css.quiet}>{models.skippedWhy}</p>}
      {node.message && !plain && <pre className={`${prose.said} ${css.message}`}>{node.message}</pre>}
      {node.compiledSql && (
        <details ref={compiled} open={open}>
          <summary>{models.sql}</summary>
          <pre className={`${prose.said} ${css.message}`} tabIndex={0} aria-label={m.run.sqlOf(node.name)}>
            {node.compiledSql}
          </pre>
          {node.compiledSqlCut && <p className={css.quiet}>{models.cut}</p>}
        </details>
      )}
    </li>
  );
}

/** The nodes that a node reads, and its readers. */
function Lineage({ known: { needs, usedBy, tests } }: { known: ManifestNode }) {
  if (needs.length + usedBy.length + tests === 0) return null;
  const parts = [
    ...usedBy.slice(0, NAMED).map(nodeName),
    ...(usedBy.length > NAMED ? [m.run.andMore(count(usedBy.length - NAMED))] : []),
    ...(tests > 0 ? [models.tests(tests)] : []),
  ];
  return (
    <p className={css.quiet} data-testid="lineage">
      {needs.length > 0 &&
        models.needs([
          ...needs.slice(0, NAMED).map(nodeName),
          ...(needs.length > NAMED ? [m.run.andMore(count(needs.length - NAMED))] : []),
        ])}
      {needs.length > 0 && parts.length > 0 && " · "}
      {parts.length > 0 && models.usedBy(parts)}
    </p>
  );
}

/** Why the list lacks lineage, or rows. */
function Missing({ lineage, rows }: { lineage: ManifestState; rows: boolean }) {
  return (
    <div className={css.quiet}>
      {lineage.state === "large" && (
        <p>
          {models.largeManifest(bytes(lineage.bytes))}{" "}
          <Button kind="quiet" onClick={lineage.read}>
            {models.readLineage}
          </Button>
        </p>
      )}
      {(lineage.state === "none" || lineage.state === "unreadable") && <p>{models.noLineage}</p>}
      {rows && <p>{models.noRows}</p>}
    </div>
  );
}
