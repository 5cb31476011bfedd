// Says who holds the slots that waiting runs need. A run that waits for an operator holds its slot too.
import { Link } from "@tanstack/react-router";
import { SlotHoldersDocument } from "../api/gen/graphql";
import { type RunRow, toRow } from "../api/model";
import { useQuery } from "../api/useQuery";
import { shortId } from "../format/format";
import { m } from "../messages";
import { runLook } from "../status/look";
import { Where } from "../ui/Env";
import { StatusBadge } from "../ui/Status";
import { Time } from "../ui/Time";
import css from "./SlotHolders.module.css";
import { type Slots, slotsInWords } from "./slots";

const SHOWN = 20;

/** The action with which a person continues the run; null for a run that continues by itself. */
function unblocks({ status, substatus }: RunRow): string | null {
  if (substatus === "AWAITING_OPERATOR" || substatus === "WAITING_MANUAL") return m.queue.unblocks[substatus];
  return status === "PAUSED" ? m.queue.unblocks.PAUSED : null;
}

interface SlotHoldersProps {
  /** The limits that keep runs waiting. */
  slots: readonly Slots[];
  /** Milliseconds between two questions. */
  every: number;
}

export function SlotHolders({ slots, every }: SlotHoldersProps) {
  const { last } = useQuery(SlotHoldersDocument, { first: SHOWN }, (result) => result, { every });
  if (slots.length === 0 || !last) return null;
  // Those that wait for a person first: only they can be hurried.
  const rows = last.runs.edges
    .map(({ node }) => toRow(node))
    .toSorted((a, b) => Number(unblocks(b) !== null) - Number(unblocks(a) !== null));
  const active = last.quotas.find(({ projectId }) => projectId === null)?.active ?? 0;
  const hidden = last.runs.pageInfo.hasNextPage ? 0 : active - rows.length;
  return (
    <section className={css.holders} aria-label={m.queue.holders}>
      <h2>{m.queue.holders}</h2>
      {slots.map((use) => (
        <p key={`${use.scope} ${use.projectId}`}>{slotsInWords(use)}</p>
      ))}
      <p className={css.means}>{m.queue.slotsMean}</p>
      <ul className={css.list}>
        {rows.map((row) => (
          <li key={row.runId}>
            <StatusBadge look={runLook(row)} />
            <Link to="/runs/$runId" params={{ runId: row.runId }} title={row.runId}>
              {row.plan.planId}@{row.plan.planVersion} <code>{shortId(row.runId)}</code>
            </Link>
            <Where project={row.projectId} environment={row.environmentId} />
            <span className={css.means}>
              {row.startedAt === null ? (
                m.queue.notStarted
              ) : (
                <>
                  {m.queue.since} <Time at={row.startedAt} format="full" />
                </>
              )}
            </span>
            {unblocks(row) !== null && (
              <Link to="/runs/$runId" params={{ runId: row.runId }}>
                {unblocks(row)}
              </Link>
            )}
          </li>
        ))}
      </ul>
      {last.runs.pageInfo.hasNextPage && <p className={css.means}>{m.queue.more(SHOWN)}</p>}
      {hidden > 0 && <p className={css.means}>{m.queue.others(hidden)}</p>}
    </section>
  );
}
