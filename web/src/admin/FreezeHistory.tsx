// The freezes of the tenant with their reasons, for readers of the audit.
import { AuditDocument } from "../api/gen/graphql";
import { instant } from "../api/model";
import { useQuery } from "../api/useQuery";
import { m } from "../messages";
import { Problem } from "../page/Problem";
import css from "../styles/Form.module.css";
import { type Column, Table } from "../ui/Table";
import { Time } from "../ui/Time";

const SHOWN = 10;

interface Freeze {
  id: string;
  at: string;
  actor: string;
  reason: string;
  frozen: boolean;
}

const columns: Column<Freeze>[] = [
  { head: m.audit.what, main: true, cell: ({ frozen }) => (frozen ? m.service.froze : m.service.unfroze) },
  { head: m.policy.by, cell: ({ actor }) => actor },
  { head: m.policy.at, cell: ({ at }) => <Time at={instant(at)} format="full" /> },
  { head: m.policy.reason, text: true, cell: ({ reason }) => reason },
];

/** `version` changes with each freeze, so that the list is asked for again. */
export function FreezeHistory({ version }: { version: string }) {
  const filter = { action: "FREEZE_TENANT", outcome: "ACCEPTED" };
  const { last, error, again } = useQuery(
    AuditDocument,
    { filter, first: SHOWN, after: null },
    ({ audit }) =>
      audit.edges.flatMap(({ node: { id, row } }): Freeze[] =>
        row
          ? [{ id, at: row.at, actor: row.actor, reason: row.reason, frozen: !row.detail.includes('"frozen":false') }]
          : [],
      ),
    { refetchOn: version },
  );
  if (error) return <Problem error={error} retry={again} />;
  if (!last) return null;
  return (
    <>
      <h3>{m.service.freezes}</h3>
      {last.length === 0 ? (
        <p className={css.hint}>{m.service.noFreezes}</p>
      ) : (
        <Table label={m.service.freezes} columns={columns} rows={last} rowKey={({ id }) => id} />
      )}
    </>
  );
}
