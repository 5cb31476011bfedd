import { Link } from "@tanstack/react-router";
import { type FormEvent, useMemo, useState } from "react";
import {
  type SecretAccessFieldsFragment,
  type SecretAccessFilter,
  SecretReadsDocument,
  type SecretReadsQuery,
} from "../api/gen/graphql";
import { instant } from "../api/model";
import { request } from "../api/request";
import { useConnection } from "../api/useConnection";
import { shortId } from "../format/format";
import { secrets as words } from "../messages/secrets";
import { List, PageHead } from "../page/List";
import { momentOf } from "../runlist/query";
import css from "../styles/Form.module.css";
import { Button } from "../ui/Button";
import { save } from "../ui/saveFile";
import type { Column } from "../ui/Table";
import { Time, useZone } from "../ui/Time";
import { secretReadsCsv } from "./secretReads";

const EXPORT_PAGE = 200;
const EXPORT_MOST = 10_000;

type Read = SecretAccessFieldsFragment;

const COLUMNS: Column<Read>[] = [
  { head: words.at, cell: ({ at }) => <Time at={instant(at)} format="full" /> },
  {
    head: words.secret,
    main: true,
    cell: ({ provider, key, version }) => <code>{`${provider}:${key}${version === null ? "" : `@${version}`}`}</code>,
  },
  {
    head: words.run,
    cell: ({ runId }) => (
      <Link to="/runs/$runId" params={{ runId }} title={runId}>
        {shortId(runId)}
      </Link>
    ),
  },
  { head: words.step, cell: ({ stepId }) => stepId },
  { head: words.attempt, cell: ({ logicalAttemptId, engineAttemptId }) => `${logicalAttemptId}.${engineAttemptId}` },
  { head: words.worker, text: true, cell: ({ account, worker }) => `${account}/${worker}` },
  { head: words.result, cell: (read) => <Result read={read} /> },
];

function Result({ read: { code, cached } }: { read: Read }) {
  if (code === null) return cached ? words.cached : words.read;
  return (
    <span className={css.tone} data-tone="bad" title={code}>
      {words.refused[code] ?? code}
    </span>
  );
}

const FIELDS = ["key", "run", "since"] as const;
type Search = Partial<Record<(typeof FIELDS)[number], string>>;

/** The reads of secrets, for readers of the audit. */
export function SecretReadsPanel() {
  const zone = useZone();
  const [search, setSearch] = useState<Search>({});
  // "-2h" counts from when the filter was chosen, so that the pages of a list have the same beginning.
  const filter = useMemo((): SecretAccessFilter => {
    const from = momentOf(search.since, Date.now(), zone);
    return {
      ...(search.key ? { key: search.key } : {}),
      ...(search.run ? { runId: search.run } : {}),
      ...(from === null ? {} : { from: new Date(from).toISOString() }),
    };
  }, [search, zone]);
  const pages = useConnection(SecretReadsDocument, { filter }, (result) => result.secretAccess);
  const [exporting, setExporting] = useState<string | null>(null);

  const exportAll = async (): Promise<void> => {
    const all: Read[] = [];
    let after: string | null = null;
    do {
      const { secretAccess }: SecretReadsQuery = await request(SecretReadsDocument, {
        filter,
        first: EXPORT_PAGE,
        after,
      });
      all.push(...secretAccess.edges.map((edge) => edge.node));
      after = secretAccess.pageInfo.hasNextPage ? secretAccess.pageInfo.endCursor : null;
      setExporting(words.exporting(all.length));
    } while (after !== null && all.length < EXPORT_MOST);
    save("secret-reads.csv", secretReadsCsv(all));
    setExporting(after === null ? null : words.cut(EXPORT_MOST));
  };
  const start = (): void => {
    exportAll().catch((cause: unknown) => setExporting(cause instanceof Error ? cause.message : String(cause)));
  };
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const fields = new FormData(event.currentTarget);
    const found: Search = {};
    for (const name of FIELDS) {
      const value = fields.get(name);
      if (typeof value === "string" && value.trim() !== "") found[name] = value.trim();
    }
    setSearch(found);
  };
  const isFiltered = Object.keys(search).length > 0;
  return (
    <>
      <PageHead title={words.title} asOf={pages.asOf} refresh={pages.refresh}>
        <Button onClick={start}>{words.csv}</Button>
      </PageHead>
      <p className={`${css.row} ${css.hint}`}>{words.says}</p>
      <p role="status" className={css.hint}>
        {exporting}
      </p>
      <form key={JSON.stringify(search)} className={css.row} onSubmit={submit}>
        <Field name="key" label={words.key} value={search.key} />
        <Field name="run" label={words.runId} value={search.run} />
        <Field name="since" label={words.since} value={search.since} placeholder={words.days} />
        <Button type="submit">{words.find}</Button>
        {isFiltered && <Button onClick={() => setSearch({})}>{words.clear}</Button>}
      </form>
      <List
        label={words.title}
        pages={pages}
        columns={COLUMNS}
        rowKey={(read) => `${read.at} ${read.runId} ${read.stepId} ${read.provider} ${read.key} ${read.as}`}
        empty={<p>{words.empty}</p>}
      />
    </>
  );
}

interface FieldProps {
  name: string;
  label: string;
  value: string | undefined;
  placeholder?: string;
}

function Field({ name, label, value, placeholder }: FieldProps) {
  return (
    <label className={css.field}>
      <span>{label}</span>
      <input name={name} defaultValue={value ?? ""} placeholder={placeholder} />
    </label>
  );
}
