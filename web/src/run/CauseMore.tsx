import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { useRunActions } from "../actions/context";
import { instant, type RunHeader } from "../api/model";
import { CompareWithGreen } from "../compare/CompareLinks";
import { m } from "../messages";
import { useOrder, useRunStore } from "../runstate/context";
import type { Failing } from "../step/dbt";
import { RESET_STEP_PARAMS } from "../address/views";
import { count, shortId } from "../format/format";
import { Time } from "../ui/Time";
import css from "./CauseCard.module.css";

const NAMED = 3;

interface CauseMoreProps {
  header: RunHeader;
  cause: string | null;
  /** The failing dbt nodes: undefined while unknown; left out when the cause is not dbt. */
  nodes?: { attempt: number | undefined; failing: Failing | null | undefined };
}

/** Facts that help to judge the cause. Each keeps its place while it loads, so that nothing moves. */
export function CauseMore({ header, cause, nodes }: CauseMoreProps) {
  return (
    <ul className={css.more} data-nodes={nodes !== undefined || undefined}>
      {othersOf(header, cause) > 0 && (
        <li>
          <AlsoFailed header={header} cause={cause} />
        </li>
      )}
      {nodes && <li>{nodes.failing && <Nodes stepId={cause} attempt={nodes.attempt} failing={nodes.failing} />}</li>}
      <li>
        <LastGreen of={header.runId} />
      </li>
    </ul>
  );
}

/** The number of failed steps beside the cause. */
function othersOf(header: RunHeader, cause: string | null): number {
  return header.failedSteps - (cause === null ? 0 : 1);
}

/** The other failed steps: they may have the same cause or another. */
function AlsoFailed({ header, cause }: { header: RunHeader; cause: string | null }) {
  const store = useRunStore();
  const order = useOrder();
  const others = othersOf(header, cause);
  const named = useMemo(() => {
    const found: string[] = [];
    for (const id of others > 0 ? order : []) {
      if (found.length === NAMED) break;
      if (id !== cause && store.step(id)?.status === "FAILED") found.push(id);
    }
    return found;
    // The header changes with every step.
    // oxlint-disable-next-line react/exhaustive-deps
  }, [store, order, header, cause]);
  return (
    <>
      <span className={css.whole}>{m.run.alsoFailed("")}</span>
      {named.map((id) => (
        <Link
          key={id}
          from="/runs/$runId"
          to="."
          search={(old) => ({ ...old, ...RESET_STEP_PARAMS, step: id, tab: "error" })}
          title={id}
        >
          {store.step(id)?.name ?? id}
        </Link>
      ))}
      {others > named.length && (
        <Link
          from="/runs/$runId"
          to="."
          search={(old) => ({ ...old, view: "steps", show: ["FAILED"] })}
          className={css.whole}
        >
          {m.run.andMore(count(others - named.length))}
        </Link>
      )}
    </>
  );
}

/** The last successful run, to compare with. */
function LastGreen({ of }: { of: string }) {
  const { actions } = useRunActions();
  if (!actions) return null;
  if (!actions.lastGreen) return <>{m.run.neverGreen}</>;
  const { runId, completedAt, createdAt } = actions.lastGreen;
  return (
    <span>
      {m.run.lastGreen}{" "}
      <Link to="/runs/$runId" params={{ runId }} search={{}}>
        {shortId(runId)}
      </Link>
      , <Time at={instant(completedAt ?? createdAt)} format="full" /> · <CompareWithGreen runId={of} greenId={runId} />
    </span>
  );
}

/** The number of failed dbt nodes, as a link to them. */
function Nodes({ stepId, attempt, failing }: { stepId: string | null; attempt: number | undefined; failing: Failing }) {
  return (
    <Link
      from="/runs/$runId"
      to="."
      search={(old) => ({
        ...old,
        ...RESET_STEP_PARAMS,
        step: stepId ?? undefined,
        attempt,
        tab: "models",
        nodes: failing.statuses,
      })}
    >
      {m.run.dbtFailed(failing.kind, failing.failed, failing.skipped)}
    </Link>
  );
}
