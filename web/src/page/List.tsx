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

/** As for a stream: without a word for so long, it is not known to be true. */
const SILENCE_MS = 20_000;

interface HeadProps {
  title: string;
  asOf: number;
  refresh: () => void;
  /** They are asked for again and again. */
  repeated?: boolean;
  children?: ReactNode;
}

/** The head of a page whose data was asked for: it says how old they are. */
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

/** Says that the answer is late, which nobody has to work out from the time. Its clock is not read out. */
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
  /** What stands here when there is nothing. */
  empty: ReactNode;
}

/** Every state of a list that is read page by page. */
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
