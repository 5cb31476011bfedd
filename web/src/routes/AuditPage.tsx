import { getRouteApi, Link } from "@tanstack/react-router";
import { type FormEvent, useEffect, useRef, useState } from "react";
import {
  AuditDocument,
  type AuditFieldsFragment,
  type AuditFilter,
  type AuditQuery,
  SignalSeqDocument,
} from "../api/gen/graphql";
import { instant } from "../api/model";
import { request } from "../api/request";
import { type Pages, useConnection } from "../api/useConnection";
import { type AuditLine, coalesce } from "../audit/coalesce";
import { auditCsv, auditLines } from "../audit/export";
import { save } from "../ui/saveFile";
import { m } from "../messages";
import { Button } from "../ui/Button";
import { useDocumentStatus } from "../ui/documentStatus";
import css from "../styles/Form.module.css";
import prose from "../styles/Prose.module.css";
import { shortId } from "../format/format";
import { useKeys } from "../ui/keys";
import { List, PageHead } from "../page/List";
import type { Column } from "../ui/Table";
import { Time } from "../ui/Time";

const OUTCOMES = ["ACCEPTED", "REJECTED", "DENIED"] as const;
const EXPORT_PAGE = 200;
const EXPORT_MOST = 10_000;
const route = getRouteApi("/audit");

const columns: Column<AuditLine>[] = [
  {
    head: m.audit.no,
    wide: true,
    cell: ({ entry, firstNo }) => (entry.no === firstNo ? entry.no : `${firstNo}–${entry.no}`),
  },
  {
    head: m.audit.at,
    cell: ({ entry }) => (entry.row ? <Time at={instant(entry.row.at)} format="full" /> : m.audit.gone),
  },
  { head: m.audit.actor, main: true, cell: ({ entry }) => entry.row?.actor },
  { head: m.audit.action, cell: ({ entry }) => entry.row?.action },
  {
    head: m.audit.outcome,
    cell: ({ entry, count }) => {
      if (!entry.row) return null;
      const good = entry.row.outcome === "ACCEPTED";
      return (
        <span className={css.tone} data-tone={good ? "good" : "bad"}>
          {good ? "✓" : "✕"} {entry.row.outcome} {entry.row.code}{" "}
          {count > 1 && <span className={css.twice}>{m.audit.times(count)}</span>}
        </span>
      );
    },
  },
  { head: m.audit.on, cell: ({ entry }) => entry.row && <Subject row={entry.row} /> },
  { head: m.audit.reason, text: true, cell: ({ entry }) => entry.row?.reason },
  {
    head: m.audit.detail,
    line: true,
    wide: true,
    cell: ({ entry }) => entry.row?.detail && <Detail text={entry.row.detail} />,
  },
];

export function AuditPage() {
  useDocumentStatus(m.audit.title);
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const chosen: AuditFilter = {
    ...(search.actor ? { actor: search.actor } : {}),
    ...(search.action ? { action: search.action } : {}),
    ...(search.outcome ? { outcome: search.outcome } : {}),
    ...(search.run ? { runId: search.run } : {}),
    ...(search.from ? { from: new Date(search.from).toISOString() } : {}),
    ...(search.to ? { to: new Date(search.to).toISOString() } : {}),
  };
  // Each run adds rows that seal its log; they are shown only to a reader who filters by their action.
  const filter: AuditFilter = search.action ? chosen : { ...chosen, seals: false };
  const pages = useConnection(AuditDocument, { filter }, (result) => result.audit);
  const [exporting, setExporting] = useState<string | null>(null);

  const find = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const fields = new FormData(event.currentTarget);
    const word = (name: string): string | undefined => {
      const value = fields.get(name);
      return typeof value === "string" && value.trim() !== "" ? value.trim() : undefined;
    };
    void navigate({
      search: (old) => ({
        ...old,
        actor: word("actor"),
        action: word("action"),
        outcome: word("outcome"),
        run: word("run"),
        from: word("from"),
        to: word("to"),
      }),
    });
  };
  const exportAs = async (kind: "csv" | "jsonl"): Promise<void> => {
    const all: AuditFieldsFragment[] = [];
    let after: string | null = null;
    do {
      const { audit }: AuditQuery = await request(AuditDocument, { filter, first: EXPORT_PAGE, after });
      all.push(...audit.edges.map((edge) => edge.node));
      after = audit.pageInfo.hasNextPage ? audit.pageInfo.endCursor : null;
      setExporting(m.audit.exporting(all.length));
    } while (after !== null && all.length < EXPORT_MOST);
    save(`audit.${kind}`, kind === "csv" ? auditCsv(filter, all) : auditLines(filter, all));
    setExporting(after === null ? null : m.audit.cut(EXPORT_MOST));
  };
  const start = (kind: "csv" | "jsonl"): void => {
    exportAs(kind).catch((cause: unknown) => setExporting(cause instanceof Error ? cause.message : String(cause)));
  };

  const lines: Pages<AuditLine> = { ...pages, rows: pages.rows && coalesce(pages.rows) };
  const form = useRef<HTMLFormElement>(null);
  const asked = JSON.stringify(filter);
  // The fields take the values of the address without losing the focus.
  useEffect(() => form.current?.reset(), [asked]);
  useKeys({ "/": { does: m.audit.filter, run: () => form.current?.querySelector("input")?.focus() } });

  return (
    <>
      <PageHead title={m.audit.title} asOf={pages.asOf} refresh={pages.refresh}>
        <Button onClick={() => start("csv")}>{m.audit.csv}</Button>
        <Button onClick={() => start("jsonl")}>{m.audit.jsonl}</Button>
      </PageHead>
      <p role="status" className={css.hint}>
        {exporting}
      </p>
      <form ref={form} className={css.row} onSubmit={find}>
        <Field name="actor" label={m.audit.actor} value={search.actor} />
        <Field name="action" label={m.audit.action} value={search.action} />
        <label className={css.field}>
          <span>{m.audit.outcome}</span>
          <select key={search.outcome} name="outcome" defaultValue={search.outcome ?? ""}>
            <option value="">{m.audit.any}</option>
            {OUTCOMES.map((outcome) => (
              <option key={outcome}>{outcome}</option>
            ))}
          </select>
        </label>
        <Field name="run" label={m.audit.run} value={search.run} />
        <Field name="from" label={m.audit.from} value={search.from} type="date" />
        <Field name="to" label={m.audit.to} value={search.to} type="date" />
        <Button type="submit">{m.audit.find}</Button>
        {Object.keys(chosen).length > 0 && (
          <Link to="/audit" search={{}} className={css.beside}>
            {m.runs.clearFilter}
          </Link>
        )}
      </form>
      <List
        label={m.audit.title}
        pages={lines}
        columns={columns}
        rowKey={({ entry }) => entry.id}
        empty={<p>{m.audit.empty}</p>}
      />
      <p className={css.note}>
        {m.audit.verify} <code>dvt audit verify</code>
      </p>
    </>
  );
}

/** The detail of a row: one line, and the whole text when it is opened. */
function Detail({ text }: { text: string }) {
  return (
    <details className={css.detail}>
      <summary>
        <code>{text}</code>
      </summary>
      <pre className={prose.said}>{pretty(text)}</pre>
    </details>
  );
}

function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** The run, and the run as it was when the signal took effect. */
function Subject({ row }: { row: NonNullable<AuditFieldsFragment["row"]> }) {
  const navigate = route.useNavigate();
  const [gone, setGone] = useState(false);
  if (row.runId === "") return null;
  const { runId, signalId } = row;
  const open = async (): Promise<void> => {
    const { signal } = await request(SignalSeqDocument, { runId, signalId });
    const at = signal?.appliedSeq ?? signal?.acceptedSeq ?? null;
    if (at === null) setGone(true);
    else await navigate({ to: "/runs/$runId", params: { runId }, search: { at } });
  };
  return (
    <span>
      <Link to="/runs/$runId" params={{ runId }}>
        {shortId(runId)}
      </Link>{" "}
      {signalId !== "" && (
        <Button
          kind="quiet"
          refusal={gone ? m.audit.noMoment : null}
          label={m.audit.momentOf(shortId(runId))}
          onClick={() => void open().catch(() => setGone(true))}
        >
          {m.audit.moment}
        </Button>
      )}
    </span>
  );
}

function Field({
  name,
  label,
  value,
  type = "text",
}: {
  name: string;
  label: string;
  value: string | undefined;
  type?: "text" | "date";
}) {
  return (
    <label className={css.field}>
      <span>{label}</span>
      <input name={name} type={type} defaultValue={value ?? ""} maxLength={200} />
    </label>
  );
}
