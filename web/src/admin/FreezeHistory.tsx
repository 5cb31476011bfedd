// The freezes of the tenant with their reasons, for readers of the audit.
import { AuditDocument, type AuditQuery } from "../api/gen/graphql";
import { instant } from "../api/model";
import { useQuery } from "../api/useQuery";
import { m } from "../messages";
import { audit as auditWords } from "../messages/audit";
import { service as serviceWords } from "../messages/service";
import { Problem } from "../page/Problem";
import css from "../styles/Form.module.css";
import { type Column, Table } from "../ui/Table";
import { Time } from "../ui/Time";

const SHOWN = 10;
const UNTIL_RECORDED_MS = 1_000;

const isFreeze = (detail: string): boolean => !detail.includes('"frozen":false');

/** Whether the newest record is a freeze; without a record the tenant was never frozen. */
function newestIsFreeze(read: AuditQuery | undefined): boolean {
  const detail = read?.audit.edges[0]?.node.row?.detail;
  return detail !== undefined && isFreeze(detail);
}

interface Freeze {
  id: string;
  at: string;
  actor: string;
  reason: string;
  frozen: boolean;
}

const columns: Column<Freeze>[] = [
  { head: auditWords.what, main: true, cell: ({ frozen }) => (frozen ? serviceWords.froze : serviceWords.unfroze) },
  { head: m.policy.by, cell: ({ actor }) => actor },
  { head: m.policy.at, cell: ({ at }) => <Time at={instant(at)} format="full" /> },
  { head: m.policy.reason, text: true, cell: ({ reason }) => reason },
];

/**
 * `version` changes with each freeze, so that the list is asked for again. A record enters the audit a moment after its
 * change: the list is read until its newest record agrees with `frozen`.
 */
export function FreezeHistory({ version, frozen }: { version: string; frozen: boolean }) {
  const filter = { action: "FREEZE_TENANT", outcome: "ACCEPTED" };
  const { last, error, again } = useQuery(
    AuditDocument,
    { filter, first: SHOWN, after: null },
    ({ audit }) =>
      audit.edges.flatMap(({ node: { id, row } }): Freeze[] =>
        row ? [{ id, at: row.at, actor: row.actor, reason: row.reason, frozen: isFreeze(row.detail) }] : [],
      ),
    { refetchOn: version, every: (read) => (newestIsFreeze(read) === frozen ? 0 : UNTIL_RECORDED_MS) },
  );
  if (error) return <Problem error={error} retry={again} />;
  if (!last) return null;
  return (
    <>
      <h3>{serviceWords.freezes}</h3>
      {last.length === 0 ? (
        <p className={css.hint}>{serviceWords.noFreezes}</p>
      ) : (
        <Table label={serviceWords.freezes} columns={columns} rows={last} rowKey={({ id }) => id} />
      )}
    </>
  );
}
