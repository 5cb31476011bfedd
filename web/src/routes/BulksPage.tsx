import { Link } from "@tanstack/react-router";
import {
  type BulkFieldsFragment,
  BulkRunCountsDocument,
  type BulkRunCountsQuery,
  BulksDocument,
} from "../api/gen/graphql";
import { instant } from "../api/model";
import { useConnection } from "../api/useConnection";
import { useQuery } from "../api/useQuery";
import { m } from "../messages";
import { audit as auditWords } from "../messages/audit";
import { useDocumentStatus } from "../ui/documentStatus";
import { List, PageHead } from "../page/List";
import type { Column } from "../ui/Table";
import { Time } from "../ui/Time";
import form from "../styles/Form.module.css";
import page from "../styles/Page.module.css";

const NONE: ReadonlyMap<string, Runs> = new Map();
const EVERY_MS = 5_000;

const STATUSES = ["failed", "running", "paused", "waiting", "cancelled", "completed"] as const;
/** The most bulks that one request may name. */
const COUNTED = 50;

type Runs = BulkRunCountsQuery["bulkRunCounts"][number]["runs"];

const columnsWith = (runs: ReadonlyMap<string, Runs>): Column<BulkFieldsFragment>[] => [
  {
    head: m.bulk.one,
    main: true,
    cell: (bulk) => (
      <Link to="/bulk/$id" params={{ id: bulk.id }}>
        {m.bulk.verb(bulk.action, m.bulk.runs(bulk.counts.total))}
      </Link>
    ),
  },
  { head: auditWords.reason, text: true, cell: (bulk) => bulk.reason },
  {
    head: m.bulk.result,
    text: true,
    cell: (bulk) => <Outcome bulk={bulk} runs={runs.get(bulk.id)} />,
  },
  { head: m.bulk.results.failed, cell: ({ counts }) => counts.rejected + counts.refused },
  { head: m.bulk.asked, cell: (bulk) => <Time at={instant(bulk.createdAt)} /> },
];

/** The progress of the bulk, and for a rerun the states of the new runs. */
function Outcome({ bulk: { state, counts, action }, runs }: { bulk: BulkFieldsFragment; runs: Runs | undefined }) {
  return (
    <>
      {m.bulk.state(state, counts.total - counts.waiting - counts.notSent, counts.total)}
      {runs && action === "RERUN" && (
        <span data-testid="new-runs">
          {STATUSES.filter((status) => runs[status] > 0).map((status) => (
            <span key={status} className={status === "failed" ? form.problem : undefined}>
              {" · "}
              {m.bulk.runsAre[status](runs[status])}
            </span>
          ))}
        </span>
      )}
    </>
  );
}

/** The bulks of the viewer. */
export function BulksPage() {
  useDocumentStatus(m.bulk.list);
  const pages = useConnection(BulksDocument, {}, (result) => result.bulks, { every: EVERY_MS });
  const ids = (pages.rows ?? []).slice(0, COUNTED).map(({ id }) => id);
  const { last } = useQuery(
    BulkRunCountsDocument,
    ids.length === 0 ? null : { ids },
    ({ bulkRunCounts }) => new Map(bulkRunCounts.map(({ bulkId, runs }) => [bulkId, runs] as const)),
    { every: EVERY_MS },
  );
  return (
    <div className={page.measure}>
      <PageHead title={m.bulk.list} asOf={pages.asOf} refresh={pages.refresh} repeated />
      <List
        label={m.bulk.list}
        pages={pages}
        columns={columnsWith(last ?? NONE)}
        rowKey={(bulk) => bulk.id}
        empty={<p>{m.bulk.empty}</p>}
      />
    </div>
  );
}
