import { Link } from "@tanstack/react-router";
import type { AuditFieldsFragment } from "../api/gen/graphql";
import { instant } from "../api/model";
import { shortId } from "../format/format";
import { m } from "../messages";
import { audit as auditWords } from "../messages/audit";
import css from "../styles/Form.module.css";
import prose from "../styles/Prose.module.css";
import { ChangedLines } from "../page/ChangedLines";
import type { Column } from "../ui/Table";
import { Time, useZone } from "../ui/Time";
import type { AuditLine } from "./coalesce";
import { PlanLink } from "../plans/links";
import { type Sentence, sentenceOf } from "./sentence";
import { reasonWords } from "./words";

export const auditColumns: Column<AuditLine>[] = [
  {
    head: auditWords.no,
    wide: true,
    cell: ({ entry, firstNo }) => (entry.no === firstNo ? entry.no : `${firstNo}–${entry.no}`),
  },
  {
    head: auditWords.at,
    cell: ({ entry }) => (entry.row ? <Time at={instant(entry.row.at)} format="full" /> : auditWords.gone),
  },
  { head: auditWords.actor, cell: ({ entry }) => entry.row && <Who actor={entry.row.actor} /> },
  {
    head: auditWords.what,
    main: true,
    text: true,
    cell: ({ entry: { row } }) => row && <What row={row} />,
  },
  { head: auditWords.outcome, cell: (line) => line.entry.row && <Outcome row={line.entry.row} count={line.count} /> },
  { head: auditWords.on, cell: ({ entry }) => entry.row && <Subject row={entry.row} /> },
  { head: auditWords.reason, text: true, cell: ({ entry }) => entry.row && <Reason text={reasonWords(entry.row)} /> },
  {
    head: auditWords.detail,
    wide: true,
    cell: ({ entry }) => entry.row?.detail && <Detail text={entry.row.detail} />,
  },
];

const LONG_REASON = 90;

type Row = NonNullable<AuditFieldsFragment["row"]>;

/** The record's sentence, the lines of a change, and a link to more about it. */
function What({ row }: { row: Row }) {
  const { text, lines, to } = sentenceOf(row, useZone());
  return (
    <span title={row.action}>
      <More to={to}>{text}</More>
      {lines.length > 0 && <ChangedLines lines={lines} />}
    </span>
  );
}

function More({ to, children }: { to: Sentence["to"]; children: string }) {
  if (to === null) return children;
  switch (to.kind) {
    case "plan":
      return <PlanLink of={to}>{children}</PlanLink>;
    case "bulk":
      return (
        <Link to="/bulk/$id" params={{ id: to.id }}>
          {children}
        </Link>
      );
    default:
      return (
        <Link to="/admin/$part" params={{ part: to.kind }}>
          {children}
        </Link>
      );
  }
}

/** A reason. One that dvt wrote may have ten lines: it opens, so that the next records stay in sight. */
function Reason({ text }: { text: string }) {
  if (text.length <= LONG_REASON) return text;
  const cut = text.lastIndexOf(" ", LONG_REASON);
  return (
    <details>
      <summary>{text.slice(0, cut > 0 ? cut : LONG_REASON)}…</summary>
      {text}
    </details>
  );
}

/** Leads to all records of the person within the rest of the filter. */
function Who({ actor }: { actor: string }) {
  return (
    <Link to="/audit" search={(old: object) => ({ ...old, actor })} aria-label={auditWords.only(actor)}>
      {actor}
    </Link>
  );
}

/** The sentence says why a request was refused; only a code without words stands here. */
function Outcome({ row, count }: { row: Row; count: number }) {
  if (row.outcome === "ESCALATED")
    return (
      <span className={css.tone} data-tone="warn" title={row.code}>
        ▲ {auditWords.outcomes.ESCALATED}
      </span>
    );
  const breaker = row.action === "BREAKER" ? auditWords.breakerOutcomes[row.outcome] : undefined;
  if (breaker !== undefined)
    return (
      <span className={css.tone} data-tone={row.outcome === "CLOSED" ? undefined : "warn"} title={row.code}>
        {row.outcome === "CLOSED" ? "✓" : "▲"} {breaker}
      </span>
    );
  const good = row.outcome === "ACCEPTED";
  return (
    <span className={css.tone} data-tone={good ? undefined : "bad"} title={row.code}>
      {good ? "✓" : "✕"} {good ? auditWords.outcomes.ACCEPTED : auditWords.refused}{" "}
      {row.code !== "" && auditWords.why[row.code] === undefined && <code>{row.code}</code>}{" "}
      {count > 1 && <span className={css.twice}>{auditWords.times(count)}</span>}
    </span>
  );
}

/** The detail of a record, which the sentence tells in words: the text when somebody asks for it. */
function Detail({ text }: { text: string }) {
  return (
    <details className={css.detail}>
      <summary>{m.admin.document}</summary>
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
function Subject({ row: { runId, signalId, outcome } }: { row: Row }) {
  if (runId === "") return null;
  return (
    <span>
      <Link to="/runs/$runId" params={{ runId }}>
        {shortId(runId)}
      </Link>
      {/* A request without permission reached no run. */}
      {signalId !== "" && outcome !== "DENIED" && <br />}
      {signalId !== "" && outcome !== "DENIED" && (
        <Link
          to="/moment/$runId/$signalId"
          params={{ runId, signalId }}
          preload={false}
          aria-label={auditWords.momentOf(shortId(runId))}
        >
          {auditWords.moment}
        </Link>
      )}
    </span>
  );
}
