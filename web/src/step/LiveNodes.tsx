import { useState } from "react";
import type { Step } from "../api/model";
import { count, duration } from "../format/format";
import { m } from "../messages";
import { models } from "../messages/artifacts";
import pills from "../styles/Pill.module.css";
import prose from "../styles/Prose.module.css";
import { Button } from "../ui/Button";
import { nodeName } from "./manifest";
import { Status } from "./NodeStatus";
import css from "./StepModels.module.css";
import { type LiveNode, useLiveNodes } from "./useLiveNodes";

/** The order in which people look at nodes, and in which the pills stand. */
const ORDER = ["FAILED", "WARN", "RUNNING", "UNFINISHED", "SKIPPED", "SUCCESS"] as const;
const SHOWN = 200;

interface LiveNodesProps {
  runId: string;
  stepId: string;
  attempt: number | null;
  /** The number of the attempt that is shown. */
  current: number;
  counts: NonNullable<Step["nodeCounts"]>;
  changedSeq: number;
}

/** The nodes of dbt while it runs: failed ones first, the newest before the older ones. */
export function LiveNodes({ runId, stepId, attempt, current, counts, changedSeq }: LiveNodesProps) {
  const [only, setOnly] = useState<string | null>(null);
  const nodes = useLiveNodes(runId, stepId, attempt, String(changedSeq));
  const rank = ({ status }: LiveNode): number => (ORDER as readonly string[]).indexOf(status);
  const all = [...nodes.values()].toReversed().filter(({ status }) => only === null || status === only);
  const rows = all.toSorted((a, b) => rank(a) - rank(b)).slice(0, SHOWN);
  return (
    <div className={css.models}>
      <p className={css.quiet}>{m.step.nodes(counts)}</p>
      <div className={pills.pills} role="group" aria-label={models.filter}>
        <Button pressed={only === null} onClick={() => setOnly(null)}>
          {models.all}
        </Button>
        {ORDER.map((status) => {
          const n = counts[status.toLowerCase() as Lowercase<typeof status>];
          return n === 0 ? null : (
            <Button key={status} pressed={only === status} onClick={() => setOnly(status)}>
              <Status status={status} /> {count(n)}
            </Button>
          );
        })}
      </div>
      <ul className={css.list}>
        {rows.map((node) => (
          <li key={node.uniqueId} className={css.entry} data-node={node.uniqueId}>
            <p className={css.line}>
              <Status status={node.status} />
              <strong className={css.name} title={node.uniqueId}>
                {node.name}
              </strong>
              {node.rowsAffected !== null && <span>{models.rows(node.rowsAffected)}</span>}
              {node.durationMs !== null && <span className={css.took}>{duration(node.durationMs)}</span>}
            </p>
            <p className={css.quiet}>{models.types[node.resourceType] ?? node.resourceType}</p>
            {node.skippedBy !== null && <p className={css.quiet}>{models.skippedBy(nodeName(node.skippedBy))}</p>}
            {node.attempt !== current && <p className={css.quiet}>{models.fromAttempt(node.attempt)}</p>}
            {node.error !== null && <pre className={`${prose.said} ${css.message}`}>{node.error}</pre>}
          </li>
        ))}
      </ul>
      {all.length > SHOWN && <p className={css.quiet}>{models.notShown(count(all.length - SHOWN))}</p>}
    </div>
  );
}
