import { useState } from "react";
import { instant } from "../api/model";
import type { Pages } from "../api/useConnection";
import { m } from "../messages";
import { List } from "../page/List";
import css from "../styles/Form.module.css";
import { Button } from "../ui/Button";
import { ChangedLines } from "../page/ChangedLines";
import { Dialog } from "../ui/Dialog";
import type { Column } from "../ui/Table";
import { Time } from "../ui/Time";
import { Changes } from "./EditDocument";

/** One version of a document. */
export interface Version {
  version: number;
  actor: string | null;
  reason: string | null;
  at: string | null;
  changed: readonly string[];
}

interface VersionsProps<V extends Version> {
  pages: Pages<V>;
  /** The version in force. */
  current: number;
  /** The content of a version, in the form in which it is saved. */
  content: (version: V) => unknown;
  /** Why an old version cannot be put back; null when it can. */
  refusal: string | null;
  /** The id of the visible text with that reason. */
  saidBy?: string | undefined;
  putBack: (version: V) => void;
  /** A version's effect outside the document that people edit; such versions are folded. */
  marked?: ((version: V) => string | null) | undefined;
  none: string;
}

/** The versions of a document: what each changed, a comparison of any two, and the way back to an old one. */
export function Versions<V extends Version>({
  pages,
  current,
  content,
  refusal,
  saidBy,
  putBack,
  marked,
  none,
}: VersionsProps<V>) {
  const [all, setAll] = useState(false);
  const folded = pages.rows?.filter((row) => marked?.(row) != null && row.version !== current).length ?? 0;
  const shown =
    all || folded === 0
      ? pages
      : { ...pages, rows: pages.rows?.filter((row) => marked?.(row) == null || row.version === current) ?? null };
  const [comparing, setComparing] = useState<{ from: number; to: number } | null>(null);
  const columns: Column<V>[] = [
    {
      head: m.policy.version,
      main: true,
      cell: (row) => (marked?.(row) == null ? row.version : `${row.version} (${marked(row)})`),
    },
    { head: m.policy.by, cell: ({ actor }) => actor },
    { head: m.policy.at, cell: ({ at }) => at && <Time at={instant(at)} format="full" /> },
    { head: m.policy.reason, text: true, cell: ({ reason }) => reason },
    { head: m.policy.changed, text: true, cell: ({ changed }) => <ChangedLines lines={changed} /> },
    {
      head: m.policy.putBack,
      cell: (row) =>
        row.version === current ? (
          m.policy.inForce
        ) : (
          <span className={css.actions}>
            <Button onClick={() => setComparing({ from: row.version, to: current })}>{m.policy.compareOne}</Button>
            <Button
              refusal={refusal}
              saidBy={saidBy}
              label={m.policy.putBackOne(row.version)}
              onClick={() => putBack(row)}
            >
              {m.policy.putBack}…
            </Button>
          </span>
        ),
    },
  ];
  return (
    <section className={css.section}>
      <h2>{m.policy.history}</h2>
      <List
        label={m.policy.history}
        pages={shown}
        columns={columns}
        rowKey={({ version }) => String(version)}
        empty={<p>{none}</p>}
      />
      {folded > 0 && (
        <p className={css.note}>
          {all ? m.policy.foldedShown(folded) : m.policy.folded(folded)}{" "}
          <Button kind="quiet" onClick={() => setAll(!all)}>
            {all ? m.policy.fold : m.policy.unfold}
          </Button>
        </p>
      )}
      {comparing && pages.rows && (
        <Compare versions={pages.rows} content={content} {...comparing} onClose={() => setComparing(null)} />
      )}
    </section>
  );
}

interface CompareProps<V extends Version> {
  versions: readonly V[];
  content: (version: V) => unknown;
  from: number;
  to: number;
  onClose: () => void;
}

function Compare<V extends Version>({ versions, content, onClose, ...chosen }: CompareProps<V>) {
  const [ends, setEnds] = useState({ from: chosen.from, to: chosen.to });
  const of = (version: number): V | undefined => versions.find((row) => row.version === version);
  const [before, after] = [of(ends.from), of(ends.to)];
  const same =
    before !== undefined && after !== undefined && JSON.stringify(content(before)) === JSON.stringify(content(after));
  return (
    <Dialog title={m.policy.compare} onClose={onClose} wide>
      <div className={css.stack}>
        <div className={css.row}>
          {(["from", "to"] as const).map((end) => (
            <label key={end} className={css.field}>
              <span>{end === "from" ? m.policy.compareFrom : m.policy.compareTo}</span>
              <select value={ends[end]} onChange={(event) => setEnds({ ...ends, [end]: Number(event.target.value) })}>
                {versions.map(({ version }) => (
                  <option key={version} value={version}>
                    {version}
                  </option>
                ))}
              </select>
            </label>
          ))}
        </div>
        {same && <p>{m.policy.same}</p>}
        {before && after && <Changes before={content(before)} after={content(after)} />}
        <div className={css.buttons}>
          <Button onClick={onClose}>{m.help.close}</Button>
        </div>
      </div>
    </Dialog>
  );
}
