import { Link } from "@tanstack/react-router";
import { ReceiptStages } from "../receipts/Receipt";
import type { BulkRowFieldsFragment } from "../api/gen/graphql";
import { instant, toSignal } from "../api/model";
import { m } from "../messages";
import { audit as auditWords } from "../messages/audit";
import { runLook } from "../status/look";
import { Where } from "../ui/Env";
import { StatusBadge } from "../ui/Status";
import { shortId } from "../format/format";
import { causeOf, failuresOf } from "./causes";
import { type Column, Table } from "../ui/Table";
import { Time } from "../ui/Time";
import css from "../styles/Bulk.module.css";

const COLUMNS: Column<BulkRowFieldsFragment>[] = [
  { head: m.bulk.no, cell: (row) => row.no, wide: true },
  {
    head: m.queue.run,
    main: true,
    cell: (row) => (
      <>
        {row.planId} <RunLink runId={row.runId} />
      </>
    ),
  },
  { head: m.queue.where, wide: true, cell: (row) => <Where project={row.projectId} environment={row.environmentId} /> },
  {
    head: m.bulk.result,
    text: true,
    cell: (row) => (
      <>
        <Outcome row={row} /> <RunNow row={row} />
      </>
    ),
  },
  { head: m.bulk.cause, text: true, cell: (row) => <Cause row={row} /> },
  { head: auditWords.at, wide: true, cell: (row) => row.at && <Time at={instant(row.at)} format="clock" /> },
];

/** The runs of a bulk: what became of the action, and what became of the run. */
export function BulkRows({ rows }: { rows: readonly BulkRowFieldsFragment[] }) {
  const failures = failuresOf(rows);
  return (
    <>
      {failures.length > 0 && (
        <ul className={css.failures} aria-label={m.bulk.failures}>
          {failures.map(([sentence, n]) => (
            <li key={sentence}>
              <strong>{m.bulk.failedWith(n)}</strong> {sentence}
            </li>
          ))}
        </ul>
      )}
      <Table label={m.bulk.rows} columns={COLUMNS} rows={rows} rowKey={(row) => String(row.no)} />
    </>
  );
}

/** Why the run of a row failed, or waits with a failed step. */
function Cause({ row }: { row: BulkRowFieldsFragment }) {
  const sentence = causeOf(row);
  if (sentence === null) return null;
  return (
    <>
      {sentence} <code>{row.causeCode}</code>
    </>
  );
}

function RunLink({ runId }: { runId: string }) {
  return (
    <Link to="/runs/$runId" params={{ runId }} title={runId}>
      <code>{shortId(runId)}</code>
    </Link>
  );
}

/** The outcome in one place: the receipt of a signal that was accepted, the new run of a rerun, or why not. */
function Outcome({ row }: { row: BulkRowFieldsFragment }) {
  const accepted = row.outcome === "ACCEPTED";
  return (
    <span data-result={row.outcome}>
      {accepted && row.newRunId !== null && (
        <>
          {m.bulk.newRun} <RunLink runId={row.newRunId} />
        </>
      )}
      {accepted && row.signal && <ReceiptStages signal={toSignal(row.signal)} />}
      {accepted && !row.signal && row.newRunId === null && m.bulk.outcome.ACCEPTED}
      {!accepted && (
        <>
          {m.bulk.outcome[row.outcome]}
          {row.message && `: ${row.message}`} {row.code && <code>{row.code}</code>}
        </>
      )}
    </span>
  );
}

/** The present status of the run, for a rerun that of the new run. */
function RunNow({ row: { outcome, runStatus } }: { row: BulkRowFieldsFragment }) {
  if (outcome !== "ACCEPTED" || runStatus === null) return null;
  return <StatusBadge look={runLook({ status: runStatus, statusRaw: runStatus, substatus: null, pause: null })} />;
}
