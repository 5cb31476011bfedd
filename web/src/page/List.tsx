import { TriangleAlert } from "lucide-react";
import type { ReactNode } from "react";
import type { Pages } from "../api/useConnection";
import { seenFor } from "../api/whileSeen";
import { m } from "../messages";
import { Announce } from "../ui/Announce";
import { Button } from "../ui/Button";
import css from "../styles/Form.module.css";
import { ticking, zoneName } from "../format/format";
import { Notice, Skeleton } from "../ui/Page";
import { Problem } from "./Problem";
import { type Column, Table } from "../ui/Table";
import { Time, useTick, useZone } from "../ui/Time";

/** The same as for a stream: an answer older than this may be wrong. */
const SILENCE_MS = 20_000;

interface HeadProps {
  title: string;
  asOf: number;
  refresh: () => void;
  /** The data are asked for at an interval. */
  repeated?: boolean;
  children?: ReactNode;
}

/** The head of a page with queried data: it says how old they are. */
export function PageHead({ title, asOf, refresh, repeated = false, children }: HeadProps) {
  const zone = useZone();
  return (
    <div className={css.head}>
      <h1>{title}</h1>
      {asOf > 0 && (
        <span className={css.asOf}>
          {m.page.asOf} <Time at={asOf} format="clock" /> {zoneName(zone)}
        </span>
      )}
      {repeated && asOf > 0 && <Stale asOf={asOf} />}
      {children}
      <span className={css.end}>
        <Button onClick={refresh}>{m.page.refresh}</Button>
      </span>
    </div>
  );
}

/** Says that the answer is late, so that nobody has to compare times. A screen reader does not hear its clock. */
function Stale({ asOf }: { asOf: number }) {
  useTick(1_000);
  const age = Date.now() - asOf;
  const stale = Math.min(age, seenFor()) > SILENCE_MS;
  return (
    <>
      <Announce text={stale ? m.sync.STALE : ""} />
      {stale && (
        <strong className={css.tone} data-tone="warn" data-testid="stale">
          <TriangleAlert size={14} aria-hidden="true" /> {m.banner.stale(ticking(age))}
        </strong>
      )}
    </>
  );
}

interface ListProps<T> {
  label: string;
  pages: Pages<T>;
  columns: readonly Column<T>[];
  rowKey: (row: T) => string;
  /** Shown when the list is empty. */
  empty: ReactNode;
}

/** A list that is read page by page, in each of its states. */
export function List<T>({ label, pages, columns, rowKey, empty }: ListProps<T>) {
  const { rows, error, hasMore, loading, more, refresh } = pages;
  if (rows === null)
    return error === null ? <Skeleton rows={8} label={m.sync.LOADING} /> : <Problem error={error} retry={refresh} />;
  if (rows.length === 0) return <Notice title={m.page.nothing}>{empty}</Notice>;
  return (
    <>
      <Table label={label} columns={columns} rows={rows} rowKey={rowKey} />
      {error !== null && <Problem error={error} retry={refresh} />}
      {hasMore && (
        <p className={css.more}>
          <Button onClick={more} refusal={loading ? m.sync.LOADING : null}>
            {m.page.more}
          </Button>
        </p>
      )}
    </>
  );
}
