import { Link } from "@tanstack/react-router";
import { type BulkFieldsFragment, BulksDocument } from "../api/gen/graphql";
import { instant } from "../api/model";
import { useConnection } from "../api/useConnection";
import { m } from "../messages";
import { useDocumentStatus } from "../ui/documentStatus";
import { List, PageHead } from "../page/List";
import type { Column } from "../ui/Table";
import { Time } from "../ui/Time";
import page from "../styles/Page.module.css";

const EVERY_MS = 5_000;

const COLUMNS: Column<BulkFieldsFragment>[] = [
  {
    head: m.bulk.one,
    main: true,
    cell: (bulk) => (
      <Link to="/bulk/$id" params={{ id: bulk.id }}>
        {m.bulk.verb(bulk.action, m.bulk.runs(bulk.counts.total))}
      </Link>
    ),
  },
  { head: m.audit.reason, text: true, cell: (bulk) => bulk.reason },
  {
    head: m.bulk.result,
    cell: ({ state, counts }) => m.bulk.state(state, counts.total - counts.waiting - counts.notSent, counts.total),
  },
  { head: m.bulk.results.failed, cell: ({ counts }) => counts.rejected + counts.refused },
  { head: m.bulk.asked, cell: (bulk) => <Time at={instant(bulk.createdAt)} /> },
];

/** The bulks of the viewer. */
export function BulksPage() {
  useDocumentStatus(m.bulk.list);
  const pages = useConnection(BulksDocument, {}, (result) => result.bulks, { every: EVERY_MS });
  return (
    <div className={page.measure}>
      <PageHead title={m.bulk.list} asOf={pages.asOf} refresh={pages.refresh} repeated />
      <List
        label={m.bulk.list}
        pages={pages}
        columns={COLUMNS}
        rowKey={(bulk) => bulk.id}
        empty={<p>{m.bulk.empty}</p>}
      />
    </div>
  );
}
