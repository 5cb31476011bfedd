import { getRouteApi } from "@tanstack/react-router";
import { type ReactNode, useMemo, useState } from "react";
import { AuditDocument, type AuditFieldsFragment, type AuditFilter, type AuditQuery } from "../api/gen/graphql";
import { request } from "../api/request";
import { type Pages, useConnection } from "../api/useConnection";
import { AuditFilterForm, type AuditSearch, criteria } from "../audit/AuditFilterForm";
import { type AuditLine, coalesce } from "../audit/coalesce";
import { auditColumns } from "../audit/columns";
import { Seals } from "../audit/Seals";
import { auditCsv, auditLines } from "../audit/export";
import { count, type Zone } from "../format/format";
import { m } from "../messages";
import { audit as auditWords } from "../messages/audit";
import { List, PageHead } from "../page/List";
import { Problem } from "../page/Problem";
import { momentOf } from "../runlist/query";
import { Gate } from "../session/MayNot";
import css from "../styles/Form.module.css";
import { Button } from "../ui/Button";
import { useDocumentStatus } from "../ui/documentStatus";
import { save } from "../ui/saveFile";
import { useZone } from "../ui/Time";

const EXPORT_PAGE = 200;
const EXPORT_MOST = 10_000;
const route = getRouteApi("/audit");

function filterOf(search: AuditSearch & { seals?: "yes" | undefined }, now: number, zone: Zone): AuditFilter {
  const from = momentOf(search.from, now, zone);
  const to = momentOf(search.to, now, zone);
  return {
    ...(search.actor ? { actor: search.actor } : {}),
    ...(search.outcome ? { outcome: search.outcome } : {}),
    ...(search.run ? { runId: search.run } : {}),
    ...(search.request ? { requestId: search.request } : {}),
    ...(from !== null ? { from: new Date(from).toISOString() } : {}),
    ...(to !== null ? { to: new Date(to).toISOString() } : {}),
    // Each run adds records that seal its log, which few readers need.
    ...(search.action ? { action: search.action } : search.seals ? {} : { seals: false }),
  };
}

export function AuditPage(): ReactNode {
  return (
    <Gate action="READ_AUDIT" title={auditWords.title}>
      <Records />
    </Gate>
  );
}

function Records(): ReactNode {
  useDocumentStatus(auditWords.title);
  const search = route.useSearch();
  const { tz: _, seals, ...chosen } = search;
  const navigate = route.useNavigate();
  const zone = useZone();
  const shown = JSON.stringify({ ...chosen, seals });
  // "-2h" counts from when the filter was chosen, so that the pages of a list have the same beginning.
  const filter = useMemo(() => filterOf(JSON.parse(shown) as AuditSearch, Date.now(), zone), [shown, zone]);
  const pages = useConnection(AuditDocument, { filter }, (result) => result.audit);
  const [exporting, setExporting] = useState<string | null>(null);

  const exportAs = async (kind: "csv" | "jsonl"): Promise<void> => {
    // An auditor follows the hashes from record to record, so a file without a filter has no gaps.
    const { seals: _hidden, ...whole } = filter;
    const all: AuditFieldsFragment[] = [];
    let after: string | null = null;
    do {
      const { audit }: AuditQuery = await request(AuditDocument, { filter: whole, first: EXPORT_PAGE, after });
      all.push(...audit.edges.map((edge) => edge.node));
      after = audit.pageInfo.hasNextPage ? audit.pageInfo.endCursor : null;
      setExporting(auditWords.exporting(all.length));
    } while (after !== null && all.length < EXPORT_MOST);
    save(`audit.${kind}`, kind === "csv" ? auditCsv(all) : auditLines(all));
    setExporting(after === null ? null : auditWords.cut(EXPORT_MOST));
  };
  const start = (kind: "csv" | "jsonl"): void => {
    exportAs(kind).catch((cause: unknown) => setExporting(cause instanceof Error ? cause.message : String(cause)));
  };

  const lines: Pages<AuditLine> = { ...pages, rows: pages.rows && coalesce(pages.rows) };
  if (pages.error?.code === "FORBIDDEN")
    return (
      <>
        <PageHead title={auditWords.title} asOf={0} refresh={pages.refresh} />
        <Problem error={pages.error} retry={pages.refresh} />
      </>
    );
  const searched = pages.first?.searched;
  return (
    <>
      <PageHead title={auditWords.title} asOf={pages.asOf} refresh={pages.refresh}>
        <Button onClick={() => start("csv")}>{auditWords.csv}</Button>
        <Button onClick={() => start("jsonl")}>{auditWords.jsonl}</Button>
      </PageHead>
      <p role="status" className={css.hint}>
        {exporting}
      </p>
      <AuditFilterForm
        search={chosen}
        find={(found) => void navigate({ search: (old) => ({ tz: old.tz, seals: old.seals, ...found }) })}
      />
      {!chosen.action && (
        <Seals
          shown={seals === "yes"}
          show={(shown) => void navigate({ search: (old) => ({ ...old, seals: shown ? "yes" : undefined }) })}
        />
      )}
      {criteria(chosen) !== "" && <p className={css.hint}>{auditWords.filtered}</p>}
      <List
        label={auditWords.title}
        pages={lines}
        columns={auditColumns}
        rowKey={({ entry }) => entry.id}
        empty={
          criteria(chosen) === "" ? (
            <p>{auditWords.none}</p>
          ) : (
            <>
              <p>
                {auditWords.empty} {auditWords.searchedFor(criteria(chosen))}
              </p>
              {searched && <p>{auditWords.searched(count(searched.from), count(searched.to))}</p>}
              {pages.hasMore ? (
                <Button onClick={pages.more} refusal={pages.loading ? m.sync.LOADING : null}>
                  {auditWords.searchMore}
                </Button>
              ) : (
                <p>{auditWords.widen}</p>
              )}
            </>
          )
        }
      />
      <p className={css.note}>
        {auditWords.verify} <code>dvt audit verify</code>
      </p>
    </>
  );
}
