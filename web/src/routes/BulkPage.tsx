import { getRouteApi, Link } from "@tanstack/react-router";
import { useState } from "react";
import { ReceiptStages } from "../actions/Receipt";
import { newId } from "../actions/intent";
import { type BulkProgressFragment, type BulkRowFieldsFragment, CancelBulkDocument } from "../api/gen/graphql";
import { instant, toSignal } from "../api/model";
import { ApiError, request } from "../api/request";
import { save } from "../audit/export";
import { actionOf } from "../bulk/action";
import pills from "../ui/Pill.module.css";
import css from "../bulk/Bulk.module.css";
import { BulkDialog } from "../bulk/BulkDialog";
import { bulkCsv } from "../bulk/csv";
import { type BulkResult, RESULTS } from "../bulk/results";
import { readRows, useBulk } from "../bulk/useBulk";
import { SyncChip } from "../components/Sync";
import { m } from "../messages";
import { Ask } from "../ui/Ask";
import { Button } from "../ui/Button";
import { useDocumentStatus } from "../ui/documentStatus";
import { Env } from "../ui/Env";
import { shortId, ticking } from "../ui/format";
import { Notice, Problem, Skeleton } from "../ui/Page";
import { type Column, Table } from "../ui/Table";
import { Time, useTick } from "../ui/Time";

const route = getRouteApi("/bulk/$id");

/** One action on many runs: how far it has come, and one row with its receipt for each run. */
export function BulkPage() {
  const { id } = route.useParams();
  return <One key={id} id={id} />;
}

function One({ id }: { id: string }) {
  const { result } = route.useSearch();
  const followed = useBulk(id, result);
  const { bulk, rows, error, sync, asOf, at } = followed;
  const [retrying, setRetrying] = useState(false);
  const [stopping, setStopping] = useState(false);
  const [saved, setSaved] = useState<ApiError | null>(null);
  useTick(1_000);
  const failed = bulk ? failedOf(bulk) : 0;
  const name = bulk ? m.bulk.verbs[bulk.type](m.bulk.runs(bulk.counts.total)) : m.bulk.one;
  useDocumentStatus(name, bulk && (failed > 0 ? "failed" : done(bulk) ? "success" : "running"), bulk && m.bulk.state(bulk.state, settled(bulk), bulk.counts.total));
  if (error?.code === "NOT_FOUND") {
    return (
      <Notice title={m.run.gone}>
        <Link to="/bulk">{m.bulk.list}</Link>
      </Notice>
    );
  }
  if (error && !bulk) return <Problem error={error} retry={() => location.reload()} />;
  if (!bulk) return <Skeleton rows={8} label={m.bulk.loading} />;
  const action = actionOf(bulk);
  const exportRows = (): void => {
    readRows(id, undefined)
      .then((all) => save(`bulk-${bulk.createdAt.slice(0, 10)}-${shortId(id)}.csv`, bulkCsv(all ?? [])))
      .catch((cause: unknown) => setSaved(cause instanceof ApiError ? cause : new ApiError(String(cause))));
  };
  return (
    <>
      <div className={css.head}>
        <h1>{name}</h1>
        <SyncChip verdict={{ state: sync, reason: null, asOf, lagMs: 0 }} now={asOf + (Date.now() - at)} />
        <span className={css.end}>
          <Button kind="primary" refusal={failed === 0 ? m.bulk.noneFailed : action === null ? m.bulk.notHere : null} onClick={() => setRetrying(true)}>
            {m.bulk.retryFailed(failed)}
          </Button>
          <Button refusal={bulk.stoppedAt !== null ? m.bulk.stopped : bulk.counts.waiting === 0 ? m.bulk.over : null} onClick={() => setStopping(true)}>
            {m.bulk.stop}…
          </Button>
          <Button onClick={exportRows}>{m.bulk.csv}</Button>
        </span>
      </div>
      <p className={css.quiet}>
        {m.bulk.asked} <Time at={instant(bulk.createdAt)} />: “{bulk.reason}”{bulk.stepId !== null && ` · ${bulk.stepId}`} · <Link to="/bulk">{m.bulk.list}</Link>
      </p>
      <Progress bulk={bulk} />
      {saved && <Problem error={saved} retry={exportRows} />}
      <nav className={`${pills.pills} ${css.results}`} aria-label={m.bulk.byResult}>
        {[undefined, ...RESULTS].map((name) => (
          <Link key={name ?? "all"} to="/bulk/$id" params={{ id }} search={{ result: name }} replace className={pills.pill} aria-current={name === result ? "page" : undefined} activeOptions={{ exact: true, includeSearch: true }}>
            {m.bulk.results[name ?? "all"]} {countOf(bulk, name)}
          </Link>
        ))}
        {result !== undefined && (
          <Button kind="quiet" onClick={followed.refresh}>
            {m.runs.refresh}
          </Button>
        )}
      </nav>
      {error && <Problem error={error} retry={followed.refresh} />}
      {rows === null && !error && <Skeleton rows={8} label={m.bulk.loading} />}
      {rows?.length === 0 && <Notice title={m.bulk.none} />}
      {rows !== null && rows.length > 0 && <Table label={m.bulk.rows} columns={COLUMNS} rows={rows} rowKey={(row) => String(row.no)} />}
      {followed.hasMore && <Button onClick={followed.more}>{m.page.more}</Button>}
      {stopping && <Stop id={id} waiting={bulk.counts.waiting} onClose={() => setStopping(false)} />}
      {retrying && action && <BulkDialog action={action} runs={{ failedOf: id }} onClose={() => setRetrying(false)} />}
    </>
  );
}

function Stop({ id, waiting, onClose }: { id: string; waiting: number; onClose: () => void }) {
  const [requestId] = useState(() => `ui-${newId()}`);
  const act = async (reason: string): Promise<void> => void (await request(CancelBulkDocument, { input: { id, requestId, reason } }));
  return (
    <Ask title={m.bulk.stop} verb={m.bulk.stop} reason="required" danger act={act} onClose={onClose}>
      <p>{m.bulk.stopMeans(waiting)}</p>
    </Ask>
  );
}

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
  { head: m.queue.where, wide: true, cell: (row) => <span>{row.projectId} / <Env id={row.environmentId} /></span> },
  { head: m.bulk.result, cell: (row) => <span data-result={row.outcome}>{m.bulk.outcome[row.outcome]}</span> },
  {
    head: m.bulk.receipt,
    text: true,
    cell: (row) => (row.signal ? <ReceiptStages signal={toSignal(row.signal)} /> : row.message && <span>{row.message} {row.code && <code>{row.code}</code>}</span>),
  },
  { head: m.audit.at, wide: true, cell: (row) => row.at && <Time at={instant(row.at)} format="clock" /> },
];

function failedOf({ counts, applications }: BulkProgressFragment): number {
  return counts.rejected + counts.refused + applications.notApplied;
}

/** Runs whose end is known. */
function settled({ counts, applications }: BulkProgressFragment): number {
  return counts.rejected + counts.refused + applications.applied + applications.noop + applications.notApplied;
}

function done(bulk: BulkProgressFragment): boolean {
  return settled(bulk) + bulk.counts.notSent === bulk.counts.total;
}

function countOf(bulk: BulkProgressFragment, result: BulkResult | undefined): number {
  if (result === undefined) return bulk.counts.total;
  return result === "failed" ? failedOf(bulk) : bulk.counts[result];
}

function Progress({ bulk }: { bulk: BulkProgressFragment }) {
  const { counts, applications } = bulk;
  const parts = { applied: applications.applied + applications.noop, failed: failedOf(bulk), moving: applications.pending + applications.delivered };
  let x = 0;
  return (
    <div className={css.meter} data-testid="bulk-progress" data-state={bulk.state}>
      <svg height="10" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
        <rect className={css.rest} width="100" height="10" />
        {Object.entries(parts).map(([part, n]) => {
          const width = (n / counts.total) * 100;
          const at = x;
          x += width;
          return <rect key={part} data-part={part} x={at} width={width} height="10" />;
        })}
      </svg>
      <p className={css.words} role="status">
        <strong>{m.bulk.state(bulk.state, settled(bulk), counts.total)}</strong>
        {(["applied", "noop", "delivered", "pending", "notApplied"] as const).map((part) => applications[part] > 0 && <span key={part}>{m.bulk.applications[part](applications[part])}</span>)}
        {bulk.state === "PACED" && bulk.pacedCode !== null && (
          <span>{m.bulk.paced(bulk.pacedCode, bulk.pacedUntil === null ? null : ticking(instant(bulk.pacedUntil) - Date.now()))}</span>
        )}
      </p>
    </div>
  );
}
