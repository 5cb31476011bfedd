import { Link } from "@tanstack/react-router";
import { createContext, memo, use } from "react";
import type { RunRow } from "../api/model";
import { m } from "../messages";
import type { ListRow } from "./list";
import { manualOf } from "../status/stepGroup";
import { Env } from "../ui/Env";
import { count, dateTime, shortId } from "../format/format";
import { runLook } from "../status/look";
import { Menu, type MenuItem } from "../ui/Menu";
import { Name } from "../ui/Name";
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
}

/** The clock of the durations; a context, so that rows do not render each second. */
const Now = createContext({ now: 0, frozen: false });

export function RunTable({ rows, now, frozen, selecting, menu }: RunTableProps) {
  const { selected, turn, turnAll } = selecting;
  const all = rows.length > 0 && rows.every((row) => selected.has(row.run.runId));
  return (
    <div className={css.frame}>
      <table className={css.table}>
        <thead>
          <tr>
            <th scope="col" className={css.check}>
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
            {m.runs.columns.map((word) => (
              <th key={word} scope="col">
                {word}
              </th>
            ))}
            <th scope="col">
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
}

const Row = memo(function Row({ run, left, selected, turn, menu }: RowProps) {
  const name = `${run.plan.planId} ${shortId(run.runId)}`;
  const cause = causeWords(run);
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
      <td className={css.status}>
        <StatusBadge look={runLook(run)} />
      </td>
      <td className={css.name}>
        <span className={css.who}>
          <Link
            to="/runs/$runId"
            params={{ runId: run.runId }}
            className={css.link}
            aria-label={`${run.plan.planId}@${run.plan.planVersion} ${shortId(run.runId)}`}
            title={`${run.plan.planId}@${run.plan.planVersion} ${run.runId}`}
          >
            <Name text={run.plan.planId} />
            <span className={css.quiet}>@{run.plan.planVersion}</span>{" "}
            <code className={css.id}>{shortId(run.runId)}</code>
          </Link>
          {left && <span className={css.left}>{m.runs.left}</span>}
        </span>
      </td>
      <td className={css.env}>
        <Env id={run.environmentId} />
      </td>
      <td className={css.steps}>
        <Progress run={run} />
      </td>
      <td className={css.started}>
        {run.startedAt === null ? (
          <span title={m.runs.createdAt(dateTime(run.createdAt, "utc"))}>{m.runs.notStarted}</span>
        ) : (
          <Time at={run.startedAt} />
        )}
      </td>
      <td className={css.took}>
        <Took run={run} />
      </td>
      <td className={css.by} title={run.triggeredBy ?? undefined}>
        {run.triggeredBy}
      </td>
      <td className={css.cause} title={cause ?? undefined}>
        {cause}
      </td>
      <td className={css.menu}>
        <Menu label={m.runs.menuOf(name)} items={menu(run)} />
      </td>
    </tr>
  );
});

function Took({ run }: { run: RunRow }) {
  const { now, frozen } = use(Now);
  return took(run, now, frozen);
}

function causeWords(run: RunRow): string | null {
  if (run.cancellation) return cancelledWords(run.cancellation);
  if (run.rootCause && (run.status === "FAILED" || run.failedSteps > 0)) {
    return `${run.rootCause.stepId ? `${run.rootCause.stepId}: ` : ""}${run.rootCause.code}`;
  }
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
  const counts = { ...run.stepCounts, person, running: run.stepCounts.running - person };
  const widths = widthsOf(
    PARTS.map((part) => counts[part]),
    counts.total,
  );
  let x = 0;
  return (
    <span className={css.progress} title={counts.total > 0 ? m.runs.stepsOf(counts) : undefined}>
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
        <span>
          {count(counts.success)}/{count(counts.total)}
          {counts.failed > 0 && <span className={css.failures}> · {m.runs.failedSteps(counts.failed)}</span>}
        </span>
      ) : (
        "–"
      )}
    </span>
  );
}
