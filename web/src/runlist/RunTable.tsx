import { Link } from "@tanstack/react-router";
import { StickyNote } from "lucide-react";
import { createContext, memo, use } from "react";
import type { RunRow } from "../api/model";
import { m } from "../messages";
import { type Column, MANY_COLUMNS } from "./columns";
import type { ListRow } from "./list";
import type { Marks } from "./useRowMarks";
import { manualOf } from "../status/stepGroup";
import { Env } from "../ui/Env";
import { errorSentence } from "../format/errorSentence";
import { count, dateTime, shortId } from "../format/format";
import { runLook } from "../status/look";
import { Menu, type MenuItem } from "../ui/Menu";
import { isInParts, Name } from "../ui/Name";
import { StatusBadge } from "../ui/Status";
import { Time } from "../ui/Time";
import { cancelledWords, took } from "../status/runWords";
import prose from "../styles/Prose.module.css";
import css from "./RunTable.module.css";

export interface Selecting {
  selected: ReadonlySet<string>;
  /** Selects or deselects one row, or with `range` all rows from the last one to it. */
  turn: (runId: string, range: boolean) => void;
  turnAll: (on: boolean) => void;
}

interface RunTableProps {
  rows: readonly ListRow[];
  /** The server's time, for runs that still move. */
  now: number;
  frozen: boolean;
  selecting: Selecting;
  /** The menu of a row. */
  menu: (run: RunRow) => MenuItem[];
  columns: readonly Column[];
  /** The viewer chose the columns, so a wide window hides none of them. */
  chosen?: boolean;
  /** The tags and notes of the runs, by run id. */
  marks: ReadonlyMap<string, Marks>;
  /** What waiting runs wait for, by run id. */
  waits?: ReadonlyMap<string, string>;
  /** Filters the list by a tag. */
  onTag: (tag: string) => void;
}

/** The tags that a row shows before the number of the others. */
const SHOWN_TAGS = 2;
const NO_MARKS: Marks = { tags: [], notes: 0 };
const NO_WAITS: ReadonlyMap<string, string> = new Map();

/** The clock of the durations; a context, so that rows do not render each second. */
const Now = createContext({ now: 0, frozen: false });

export function RunTable(props: RunTableProps) {
  const { rows, now, frozen, selecting, menu, columns, chosen = false, marks, waits = NO_WAITS, onTag } = props;
  const { selected, turn, turnAll } = selecting;
  const all = rows.length > 0 && rows.every((row) => selected.has(row.run.runId));
  return (
    <div className={css.frame}>
      <table
        className={css.table}
        data-usual={!chosen || undefined}
        data-many={(chosen && columns.length > MANY_COLUMNS) || undefined}
      >
        <thead>
          <tr>
            <th scope="col" className={css.check} data-col="check">
              <input
                type="checkbox"
                aria-label={m.runs.selectAll}
                checked={all}
                ref={(box) => {
                  if (box) box.indeterminate = !all && selected.size > 0;
                }}
                onChange={() => turnAll(!all)}
              />
            </th>
            <th scope="col" data-col="status">
              {m.runs.status}
            </th>
            <th scope="col">{m.runs.planAndRun}</th>
            {columns.map((column) => (
              <th key={column} scope="col" data-col={column}>
                {m.runs.columns[column]}
              </th>
            ))}
            <th scope="col" data-col="menu">
              <span className={prose.hidden}>{m.runs.menu}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          <Now value={{ now, frozen }}>
            {rows.map((row) => (
              <Row
                key={row.run.runId}
                run={row.run}
                left={row.left}
                selected={selected.has(row.run.runId)}
                turn={turn}
                menu={menu}
                columns={columns}
                marks={marks.get(row.run.runId) ?? NO_MARKS}
                wait={waits.get(row.run.runId) ?? null}
                onTag={onTag}
              />
            ))}
          </Now>
        </tbody>
      </table>
    </div>
  );
}

interface RowProps {
  run: RunRow;
  left: boolean;
  selected: boolean;
  turn: Selecting["turn"];
  menu: RunTableProps["menu"];
  columns: readonly Column[];
  marks: Marks;
  wait: string | null;
  onTag: RunTableProps["onTag"];
}

const Row = memo(function Row({ run, left, selected, turn, menu, columns, marks, wait, onTag }: RowProps) {
  const { now } = use(Now);
  const { tags, notes } = marks;
  const name = `${run.plan.planId} ${shortId(run.runId)}`;
  return (
    <tr className={css.row} data-left={left || undefined} data-selected={selected || undefined} data-run={run.runId}>
      <td className={css.check}>
        <input
          type="checkbox"
          aria-label={m.runs.select(name)}
          checked={selected}
          onChange={(event) => turn(run.runId, event.nativeEvent instanceof MouseEvent && event.nativeEvent.shiftKey)}
        />
      </td>
      <td
        className={css.status}
        title={run.status === "RUNNING" && run.substatus === null ? m.runs.runningMeans : undefined}
      >
        <StatusBadge look={runLook(run)} />
        {run.deadline && !run.completedAt && Date.parse(run.deadline) < now && <b> {m.runs.late}</b>}
      </td>
      <td className={css.name}>
        <span className={css.who}>
          <Link
            to="/runs/$runId"
            params={{ runId: run.runId }}
            className={css.link}
            aria-label={
              isInParts(run.plan.planId)
                ? `${run.plan.planId}@${run.plan.planVersion} ${shortId(run.runId)}`
                : undefined
            }
            title={`${run.plan.planId}@${run.plan.planVersion} ${run.runId}`}
          >
            <Name text={run.plan.planId} />
            <span className={css.quiet}>@{run.plan.planVersion}</span>{" "}
            <code className={css.id}>{shortId(run.runId)}</code>
          </Link>
          {!columns.includes("tags") && tags.length > 0 && <Tags tags={tags} onTag={onTag} />}
          {notes > 0 && (
            <Link
              to="/runs/$runId"
              params={{ runId: run.runId }}
              search={{ view: "details" }}
              className={css.notes}
              aria-label={m.runs.notesOf(name, notes)}
              title={m.runs.notesOf(name, notes)}
            >
              <StickyNote size={14} aria-hidden="true" />
            </Link>
          )}
          {left && <span className={css.left}>{m.runs.left}</span>}
        </span>
      </td>
      {columns.map((column) => (
        <Cell key={column} column={column} run={run} tags={tags} wait={wait} onTag={onTag} />
      ))}
      <td className={css.menu}>
        <Menu label={m.runs.menuOf(name)} items={menu(run)} />
      </td>
    </tr>
  );
});

interface CellProps {
  column: Column;
  run: RunRow;
  tags: readonly string[];
  wait: string | null;
  onTag: RunTableProps["onTag"];
}

function Cell({ column, run, tags, wait, onTag }: CellProps) {
  const title = { cause: causeWords(run) ?? wait, by: run.triggeredBy }[column as string] ?? undefined;
  return (
    <td className={css[column]} title={title}>
      {content()}
    </td>
  );

  function content() {
    switch (column) {
      case "env":
        return <Env id={run.environmentId} />;
      case "steps":
        return <Progress run={run} />;
      case "started":
        return run.startedAt === null ? (
          <span title={m.runs.createdAt(dateTime(run.createdAt, "utc"))}>{m.runs.notStarted}</span>
        ) : (
          <Time at={run.startedAt} />
        );
      case "ended":
        return run.completedAt !== null && <Time at={run.completedAt} />;
      case "took":
        return <Took run={run} />;
      case "by":
        return title;
      case "cause":
        return <Cause run={run} wait={wait} />;
      case "tags":
        return tags.length > 0 && <Tags tags={tags} onTag={onTag} />;
    }
  }
}

function Tags({ tags, onTag }: Pick<CellProps, "tags" | "onTag">) {
  const hidden = tags.slice(SHOWN_TAGS);
  return (
    <span className={css.tagList}>
      {tags.slice(0, SHOWN_TAGS).map((tag) => (
        <button key={tag} type="button" className={css.tag} title={m.runs.onlyTag(tag)} onClick={() => onTag(tag)}>
          {tag}
        </button>
      ))}
      {hidden.length > 0 && <span title={hidden.join(", ")}>{m.runs.moreTags(hidden.length)}</span>}
    </span>
  );
}

function Took({ run }: { run: RunRow }) {
  const { now, frozen } = use(Now);
  return took(run, now, frozen);
}

/** The error of the run as a sentence; null when it has none that explains it. */
function errorOf(run: RunRow): { step: string; sentence: string; code: string } | null {
  const error = run.rootCause;
  if (run.cancellation || !error || (run.status !== "FAILED" && run.failedSteps === 0)) return null;
  const [sentence = ""] = (error.message ?? "").trim().split("\n");
  return { step: error.stepId ? (error.stepName ?? error.stepId) : "", sentence, code: error.code };
}

/**
 * The cause as people say it. The error comes first, because a column cuts the end, and rows of one plan often differ in
 * the error only. The code stands for an error without a text; else the tooltip has it.
 */
function Cause({ run, wait }: { run: RunRow; wait: string | null }) {
  const error = errorOf(run);
  if (!error) return causeWords(run) ?? wait;
  if (error.sentence !== "") return errorSentence(error.sentence, error.step);
  return (
    <>
      {error.step} <code className={css.code}>{error.code}</code>
    </>
  );
}

function causeWords(run: RunRow): string | null {
  if (run.cancellation) return cancelledWords(run.cancellation);
  const error = errorOf(run);
  if (error) return `${error.step === "" ? "" : `${error.step}: `}${error.sentence} ${error.code}`;
  if (run.pause) return m.run.pausedBy(run.pause.requestedBy ?? "?", run.pause.reason);
  return null;
}

const PARTS = ["success", "failed", "running", "person", "skipped"] as const;
/** The least width of a part that has a step, of 100, so that one failure among 300 steps is seen. */
const LEAST = 5;

/** The widths of the parts, of 100. A part below LEAST takes the rest of its width from the larger ones. */
export function widthsOf(counts: readonly number[], total: number): number[] {
  if (total === 0) return counts.map(() => 0);
  const small = counts.map((n) => n > 0 && (n / total) * 100 < LEAST);
  const room = 100 - LEAST * small.filter(Boolean).length;
  const large = total - counts.reduce((sum, n, i) => sum + (small[i] ? n : 0), 0);
  return counts.map((n, i) => (small[i] ? LEAST : large === 0 ? 0 : (n / large) * room));
}

function Progress({ run }: { run: RunRow }) {
  const person = manualOf(run);
  const { stopped, kept } = run.stepCounts;
  const counts = {
    ...run.stepCounts,
    person,
    running: run.stepCounts.running - person,
    failed: run.stepCounts.failed - stopped,
    skipped: run.stepCounts.skipped + stopped,
  };
  const widths = widthsOf(
    PARTS.map((part) => counts[part]),
    counts.total,
  );
  let x = 0;
  return (
    <span
      className={css.progress}
      title={counts.total > 0 ? m.runs.stepsOf({ ...counts, skipped: run.stepCounts.skipped }) : undefined}
    >
      <svg className={css.bar} width="40" height="8" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
        <rect className={css.rest} width="100" height="8" />
        {PARTS.map((part, i) => {
          const width = widths[i] ?? 0;
          const at = x;
          x += width;
          return width > 0 && <rect key={part} data-part={part} x={at} width={width} height="8" />;
        })}
      </svg>
      {counts.total > 0 ? (
        <span className={css.counts}>
          <span>
            {count(counts.success)}/{count(counts.total)}
            {counts.failed > 0 && <span className={css.failures}> · {m.runs.failedSteps(counts.failed)}</span>}
            {stopped > 0 && ` · ${m.runs.cancelledSteps(stopped)}`}
          </span>
          {kept > 0 && <span className={css.kept}>{` · ${m.runs.keptSteps(kept)}`}</span>}
        </span>
      ) : run.waitsForApprovals ? (
        m.runs.approvals(run.waitsForApprovals.given, run.waitsForApprovals.required)
      ) : (
        "–"
      )}
    </span>
  );
}
