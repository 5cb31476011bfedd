// Says who holds the slots that waiting runs need. A run that waits for an operator holds its slot too.
import { Link } from "@tanstack/react-router";
import { RightHoldersDocument, SlotHoldersDocument, WaitsDocument, type WaitsQuery } from "../api/gen/graphql";
import { instant, type RunRow, toRow } from "../api/model";
import { useQuery } from "../api/useQuery";
import { shortId } from "../format/format";
import { m } from "../messages";
import { useCan } from "../session/useCan";
import { runLook } from "../status/look";
import { Where } from "../ui/Env";
import { StatusBadge } from "../ui/Status";
import { Time } from "../ui/Time";
import css from "./SlotHolders.module.css";
import { type Slots, slotsInWords } from "./slots";

const SHOWN = 20;

type Wait = WaitsQuery["attention"]["edges"][number]["node"];

/** Whether the run goes on only when a person acts. */
function isHeldUp({ status, substatus }: RunRow): boolean {
  return status === "PAUSED" || substatus === "AWAITING_OPERATOR" || substatus === "WAITING_MANUAL";
}

/** The only project whose limit keeps runs waiting; null when a wider limit does too, or those of several projects. */
function projectOf(slots: readonly Slots[]): string | null {
  const [first, ...others] = slots;
  return first?.scope === "PROJECT" && others.length === 0 ? first.projectId : null;
}

interface SlotHoldersProps {
  /** The limits that keep runs waiting. */
  slots: readonly Slots[];
  /** New runs are on hold, so no limit keeps them waiting now. */
  held: boolean;
  /** Milliseconds between two questions. */
  every: number;
}

export function SlotHolders({ slots, held, every }: SlotHoldersProps) {
  // The end of a run of another project frees no slot of a project whose own limit is reached.
  const project = projectOf(slots);
  const { last } = useQuery(SlotHoldersDocument, { first: SHOWN, projectId: project }, (result) => result, { every });
  const { last: waits } = useQuery(WaitsDocument, {}, ({ attention }) => attention.edges.map(({ node }) => node), {
    every,
  });
  if ((slots.length === 0 && !held) || !last) return null;
  // Those that wait for a person first: only they can be hurried.
  const rows = last.runs.edges
    .map(({ node }) => toRow(node))
    .toSorted((a, b) => Number(isHeldUp(b)) - Number(isHeldUp(a)));
  const active = last.quotas.find(({ projectId }) => projectId === project)?.active ?? 0;
  const hidden = last.runs.pageInfo.hasNextPage ? 0 : active - rows.length;
  return (
    <section className={css.holders} aria-label={m.queue.holders}>
      <h2>{m.queue.holders}</h2>
      {slots.map((use) => (
        <p key={`${use.scope} ${use.projectId}`}>{slotsInWords(use)}</p>
      ))}
      <p className={css.means}>{slots.length > 0 ? m.queue.slotsMean : m.queue.held}</p>
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
            {isHeldUp(row) && waits && (
              <Unblocks row={row} wait={waits.find(({ runId, kind }) => runId === row.runId && kind !== "LATE")} />
            )}
          </li>
        ))}
      </ul>
      {last.runs.pageInfo.hasNextPage && <p className={css.means}>{m.queue.more(SHOWN)}</p>}
      {hidden > 0 && <p className={css.means}>{m.queue.others(hidden)}</p>}
    </section>
  );
}

interface UnblocksProps {
  row: RunRow;
  wait: Wait | undefined;
}

/** What the viewer can do so that the run goes on, as a link; otherwise who can. */
function Unblocks({ row, wait }: UnblocksProps) {
  if (row.status === "PAUSED") return <Resume runId={row.runId} />;
  if (!wait) return null;
  const { kind, actions, whoCould, deadline } = wait;
  const able = actions.some((action) => action === m.attention.answers[kind].action || action === "SKIP_STEP");
  return (
    <>
      {able ? (
        <ToRun runId={row.runId} words={m.queue.unblocks[kind]} />
      ) : (
        <span className={css.means}>
          {whoCould.length > 0 ? m.attention.waitsFor(whoCould) : m.attention.nobody[kind]}
        </span>
      )}
      {deadline !== null && (
        <span className={css.means}>
          {m.attention.ends[kind]}: <Time at={instant(deadline)} format="full" />
        </span>
      )}
    </>
  );
}

/** A paused run is not among what needs attention, so the holders of the right are asked for. */
function Resume({ runId }: { runId: string }) {
  const may = useCan("RESUME") === null;
  const { last: names } = useQuery(
    RightHoldersDocument,
    may ? null : { actions: ["RESUME"] },
    ({ rightHolders }) => rightHolders[0]?.names ?? [],
  );
  if (may) return <ToRun runId={runId} words={m.queue.unblocks.PAUSED} />;
  return (
    <span className={css.means}>{names && names.length > 0 ? m.attention.waitsFor(names) : m.queue.othersResume}</span>
  );
}

function ToRun({ runId, words }: { runId: string; words: string }) {
  return (
    <Link to="/runs/$runId" params={{ runId }}>
      {words}
    </Link>
  );
}
