import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import type { BulkRunsInput, RunFilter } from "../api/gen/graphql";
import type { RunRow } from "../api/model";
import { m } from "../messages";
import { useMay } from "../session/MayNot";
import { Button } from "../ui/Button";
import {
  applies,
  BULK_ACTIONS,
  type BulkAction,
  type BulkKind,
  commonFailure,
  hasEnded,
  irreversible,
  newAction,
} from "./action";
import css from "../styles/Bulk.module.css";
import { BulkDialog } from "./BulkDialog";

interface BulkBarProps {
  selected: readonly RunRow[];
  filter: RunFilter;
  /** More runs match the filter than the page shows. */
  more: boolean;
  clear: () => void;
}

/**
 * The actions on the selected runs, or on all that match the filter. Each button opens a dialog for the selected runs
 * to which its action can apply; it is off when there is none.
 */
export function BulkBar({ selected, filter, more, clear }: BulkBarProps) {
  const navigate = useNavigate();
  const [everything, setEverything] = useState(false);
  const [asking, setAsking] = useState<{ action: BulkAction; runs: BulkRunsInput } | null>(null);
  const ended = selected.filter(hasEnded).length;
  const of = (kind: BulkKind): readonly RunRow[] => selected.filter((run) => applies(kind, run));
  const ask = (kind: BulkKind): void =>
    setAsking({
      action: {
        ...newAction(kind, kind === "RETRY_STEP" ? commonFailure(of(kind)) : ""),
        // If all runs completed, nothing failed to rerun from, so rerun from the start.
        from: !everything && of(kind).every(({ status }) => status === "COMPLETED") ? "start" : "failed",
      },
      runs: everything ? { filter } : { ids: of(kind).map((run) => run.runId) },
    });
  return (
    <>
      <div className={css.bar} data-bar role="region" aria-label={m.bulk.bar}>
        <strong>{everything ? m.bulk.all : m.bulk.selected(selected.length, ended)}</strong>
        {BULK_ACTIONS.map((kind) => (
          <BulkButton
            key={kind}
            kind={kind}
            refusal={!everything && of(kind).length === 0 ? m.bulk.noneApplies[kind] : null}
            ask={() => ask(kind)}
          />
        ))}
        <Button
          refusal={selected.length === 2 && !everything ? null : m.bulk.twoToCompare}
          onClick={() => void navigate({ to: "/compare", search: comparisonOf(selected) })}
        >
          {m.compare.two}
        </Button>
        <span className={css.end}>
          {(more || everything) && (
            <Button kind="quiet" pressed={everything} onClick={() => setEverything(!everything)}>
              {m.bulk.actOnAll}
            </Button>
          )}
          <Button kind="quiet" onClick={clear}>
            {m.bulk.clear} <kbd>Esc</kbd>
          </Button>
        </span>
      </div>
      {asking && <BulkDialog action={asking.action} runs={asking.runs} onClose={() => setAsking(null)} />}
    </>
  );
}

interface BulkButtonProps {
  kind: BulkKind;
  /** Why the action applies to no selected run. */
  refusal: string | null;
  ask: () => void;
}

/** Is off for a viewer who may do this nowhere, and names who can: a dialog would only say it later. */
function BulkButton({ kind, refusal, ask }: BulkButtonProps) {
  const may = useMay(kind);
  return (
    <Button kind={irreversible(kind) ? "danger" : "plain"} refusal={may.refusal ?? refusal} onClick={ask}>
      {m.action[kind]}…
    </Button>
  );
}

/** Compares two runs, the older one as A. */
function comparisonOf(runs: readonly RunRow[]): { a?: string | undefined; b?: string | undefined } {
  const [a, b] = runs.toSorted((x, y) => x.createdAt - y.createdAt);
  return { a: a?.runId, b: b?.runId };
}
