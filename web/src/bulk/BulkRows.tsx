import { Link } from "@tanstack/react-router";
import { ReceiptStages } from "../receipts/Receipt";
import type { BulkRowFieldsFragment } from "../api/gen/graphql";
import { instant, toSignal } from "../api/model";
import { m } from "../messages";
import { Where } from "../ui/Env";
import { shortId } from "../format/format";
import { type Column, Table } from "../ui/Table";
import { Time } from "../ui/Time";

const COLUMNS: Column<BulkRowFieldsFragment>[] = [
  { head: m.bulk.no, cell: (row) => row.no, wide: true },
  {
    head: m.queue.run,
    main: true,
    cell: (row) => (
      <Link to="/runs/$runId" params={{ runId: row.runId }} title={row.runId}>
        <code>{shortId(row.runId)}</code>
      </Link>
    ),
  },
  { head: m.queue.where, wide: true, cell: (row) => <Where project={row.projectId} environment={row.environmentId} /> },
  { head: m.bulk.result, cell: (row) => <span data-result={row.outcome}>{m.bulk.outcome[row.outcome]}</span> },
  {
    head: m.bulk.receipt,
    text: true,
    cell: (row) =>
      row.signal ? (
        <ReceiptStages signal={toSignal(row.signal)} />
      ) : (
        row.message && (
          <span>
            {row.message} {row.code && <code>{row.code}</code>}
          </span>
        )
      ),
  },
  { head: m.audit.at, wide: true, cell: (row) => row.at && <Time at={instant(row.at)} format="clock" /> },
];

/** The runs of a bulk with their receipts. */
export function BulkRows({ rows }: { rows: readonly BulkRowFieldsFragment[] }) {
  return <Table label={m.bulk.rows} columns={COLUMNS} rows={rows} rowKey={(row) => String(row.no)} />;
}
