import { getRouteApi, Link, useLocation } from "@tanstack/react-router";
import { useCallback, useState } from "react";
import { instant } from "../api/model";
import { ApiError } from "../api/error";
import { save } from "../ui/saveFile";
import { actionOf, newAction } from "../bulk/action";
import pills from "../styles/Pill.module.css";
import css from "../styles/Bulk.module.css";
import { BulkDialog } from "../bulk/BulkDialog";
import { BulkMeter } from "../bulk/BulkMeter";
import { BulkRows } from "../bulk/BulkRows";
import { BulkStop } from "../bulk/BulkStop";
import { bulkCsv } from "../bulk/csv";
import { countOf, done, failedAgain, failedOf, RESULTS, settled } from "../bulk/results";
import { readRows, useBulk } from "../bulk/useBulk";
import { SyncChip } from "../freshness/Sync";
import { m } from "../messages";
import { Button } from "../ui/Button";
import { useDocumentStatus } from "../ui/documentStatus";
import { shortId } from "../format/format";
import { Notice, Skeleton } from "../ui/Page";
import { Problem } from "../page/Problem";
import { Time, useTick } from "../ui/Time";
import page from "../styles/Page.module.css";

const route = getRouteApi("/bulk/$id");

/** The page of a bulk: its progress, and each run with its receipt. */
export function BulkPage() {
  const { id } = route.useParams();
  return <One key={id} id={id} />;
}

function One({ id }: { id: string }) {
  const { result } = route.useSearch();
  const followed = useBulk(id, result);
  const { bulk, rows, error, sync, asOf, at } = followed;
  const [retrying, setRetrying] = useState(false);
  const [rerunning, setRerunning] = useState<string[] | null>(null);
  const [stopping, setStopping] = useState(false);
  const [saved, setSaved] = useState<ApiError | null>(null);
  useTick(1_000);
  const sent = useLocation({ select: ({ state }) => state.sent });
  // The dialog that sent it is gone, so the focus moves here.
  const heading = useCallback((h1: HTMLElement | null) => (sent ? h1?.focus() : undefined), [sent]);
  const failed = bulk ? failedOf(bulk) : 0;
  const name = bulk ? m.bulk.verb(bulk.action, m.bulk.runs(bulk.counts.total)) : m.bulk.one;
  useDocumentStatus(
    name,
    bulk && (failed + failedAgain(bulk) > 0 ? "failed" : done(bulk) ? "success" : "running"),
    bulk && m.bulk.state(bulk.state, settled(bulk), bulk.counts.total),
  );
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
  const again = failedAgain(bulk);
  const rerunFailed = (): void => {
    readRows(id, "accepted")
      .then((all) =>
        setRerunning((all ?? []).flatMap((row) => (row.runStatus === "FAILED" ? (row.newRunId ?? []) : []))),
      )
      .catch((cause: unknown) => setSaved(cause instanceof ApiError ? cause : new ApiError(String(cause))));
  };
  const exportRows = (): void => {
    readRows(id, undefined)
      .then((all) => save(`bulk-${bulk.createdAt.slice(0, 10)}-${shortId(id)}.csv`, bulkCsv(all ?? [])))
      .catch((cause: unknown) => setSaved(cause instanceof ApiError ? cause : new ApiError(String(cause))));
  };
  return (
    <div className={page.measure}>
      <div className={css.head}>
        <h1 ref={heading} tabIndex={-1}>
          {name}
        </h1>
        <SyncChip verdict={{ state: sync, reason: null, asOf, lagMs: 0 }} now={asOf + (Date.now() - at)} />
        <span className={css.end}>
          {bulk.action === "RERUN" && (
            <Button kind="primary" refusal={again === 0 ? m.bulk.noneFailedAgain : null} onClick={rerunFailed}>
              {m.bulk.rerunFailed(again)}
            </Button>
          )}
          {(bulk.action !== "RERUN" || failed > 0) && (
            <Button
              kind={bulk.action === "RERUN" ? "plain" : "primary"}
              refusal={failed === 0 ? m.bulk.noneFailed : action === null ? m.bulk.notHere : null}
              onClick={() => setRetrying(true)}
            >
              {m.bulk.retryFailed(failed)}
            </Button>
          )}
          <Button
            refusal={bulk.stoppedAt !== null ? m.bulk.stopped : bulk.counts.waiting === 0 ? m.bulk.over : null}
            onClick={() => setStopping(true)}
          >
            {m.bulk.stop}…
          </Button>
          <Button onClick={exportRows}>{m.bulk.csv}</Button>
        </span>
      </div>
      <p className={css.quiet}>
        {m.bulk.asked} <Time at={instant(bulk.createdAt)} />: “{bulk.reason}”
        {bulk.stepId !== null && ` · ${bulk.stepId}`} · <Link to="/bulk">{m.bulk.list}</Link>
      </p>
      <BulkMeter bulk={bulk} />
      {saved && <Problem error={saved} retry={exportRows} />}
      <nav className={`${pills.pills} ${css.results}`} aria-label={m.bulk.byResult}>
        {[undefined, ...RESULTS.filter((name) => name === result || countOf(bulk, name) > 0)].map((name) => (
          <Link
            key={name ?? "all"}
            to="/bulk/$id"
            params={{ id }}
            search={{ result: name }}
            replace
            className={pills.pill}
            aria-current={name === result ? "page" : undefined}
            activeOptions={{ exact: true, includeSearch: true }}
          >
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
      {rows !== null && rows.length > 0 && <BulkRows rows={rows} />}
      {followed.hasMore && <Button onClick={followed.more}>{m.page.more}</Button>}
      {stopping && <BulkStop id={id} waiting={bulk.counts.waiting} onClose={() => setStopping(false)} />}
      {rerunning && (
        <BulkDialog action={newAction("RERUN")} runs={{ ids: rerunning }} onClose={() => setRerunning(null)} />
      )}
      {retrying && action && <BulkDialog action={action} runs={{ failedOf: id }} onClose={() => setRetrying(false)} />}
    </div>
  );
}
