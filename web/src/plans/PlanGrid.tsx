import { Link } from "@tanstack/react-router";
import { type KeyboardEvent, useCallback, useState } from "react";
import type { PlanQuery } from "../api/gen/graphql";
import { instant } from "../api/model";
import { dateTime, duration, shortId } from "../format/format";
import { m } from "../messages";
import { Button } from "../ui/Button";
import { useZone } from "../ui/Time";
import { looksOf, runCell, stepCell, toneStyle } from "./glyphs";
import { type PlanId, StepLink } from "./links";
import { GlyphLegend, RunCell } from "./RunCells";
import prose from "../styles/Prose.module.css";
import css from "./Plans.module.css";

export type Grid = NonNullable<PlanQuery["plan"]>["grid"];

/** Rows that are shown at once; more cost the browser noticeable time. */
const MOST_ROWS = 200;
const MOVES: Record<string, readonly [number, number]> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
};

/** The steps of a plan by its last runs, the newest run on the right. One cell can be reached by Tab, the rest by arrows. */
export function PlanGrid({ of, grid }: { of: PlanId; grid: Grid }) {
  const zone = useZone();
  const [all, setAll] = useState(false);
  const newest = useCallback((scroll: HTMLDivElement | null) => {
    if (scroll) scroll.scrollLeft = scroll.scrollWidth;
  }, []);
  const order = grid.runs.map((_, i) => grid.runs.length - 1 - i);
  const steps = all ? grid.steps : grid.steps.slice(0, MOST_ROWS);
  return (
    <>
      <div className={css.scroll} ref={newest}>
        <table className={css.grid} aria-label={m.plans.grid} onKeyDown={move} onFocus={keepInTabOrder}>
          <thead>
            <tr>
              <th scope="col">{m.plans.step}</th>
              {order.map((i) => {
                const run = grid.runs[i];
                if (!run) return null;
                return (
                  <th key={run.runId} scope="col">
                    <RunCell run={run} at={dateTime(instant(run.createdAt), zone)} />
                  </th>
                );
              })}
            </tr>
          </thead>
          <tbody>
            {steps.map((step, row) => (
              <tr key={step.stepId}>
                <th scope="row" title={step.stepId}>
                  <StepLink of={of} stepId={step.stepId} className={css.stepName}>
                    {step.name ?? step.stepId}
                  </StepLink>
                </th>
                {order.map((i) => {
                  const run = grid.runs[i];
                  const cell = step.cells[i];
                  if (!run) return null;
                  if (!cell) {
                    return (
                      <td key={run.runId} className={css.absent} title={m.plans.absent}>
                        <span className={prose.hidden}>{m.plans.absent}</span>
                      </td>
                    );
                  }
                  const look = stepCell(cell);
                  const name = `${m.plans.cell(
                    look.word,
                    cell.durationMs === null ? "" : duration(cell.durationMs),
                    shortId(run.runId),
                  )}${cell.attempts > 1 ? `, ${m.plans.retried(cell.attempts)}` : ""}`;
                  return (
                    <td key={run.runId}>
                      <Link
                        to="/runs/$runId"
                        params={{ runId: run.runId }}
                        search={{ step: step.stepId }}
                        className={css.cell}
                        style={toneStyle(look.tone)}
                        data-retried={cell.attempts > 1 || undefined}
                        tabIndex={row === 0 && i === 0 ? 0 : -1}
                        preload={false}
                        aria-label={name}
                        title={name}
                      >
                        {look.glyph}
                      </Link>
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {steps.length < grid.steps.length && (
        <Button onClick={() => setAll(true)}>{m.plans.allSteps(grid.steps.length)}</Button>
      )}
      {grid.leftOut > 0 && <p className={css.quiet}>{m.plans.leftOut(grid.leftOut)}</p>}
    </>
  );
}

/** Moves the focus to the next link in the direction of the arrow. */
function move(event: KeyboardEvent<HTMLTableElement>): void {
  const [down, right] = MOVES[event.key] ?? [0, 0];
  const at = (event.target as Element).closest<HTMLTableCellElement>("td, th");
  if ((down === 0 && right === 0) || !at) return;
  event.preventDefault();
  const table = event.currentTarget;
  let row = (at.parentElement as HTMLTableRowElement).rowIndex + down;
  let column = at.cellIndex + right;
  for (let cells = table.rows[row]?.cells; cells?.[column]; cells = table.rows[row]?.cells) {
    const link = cells[column]?.querySelector("a");
    if (link) {
      link.focus();
      return;
    }
    row += down;
    column += right;
  }
}

/** The focused cell is the one that Tab returns to. */
function keepInTabOrder(event: React.FocusEvent<HTMLTableElement>): void {
  const link = event.target.closest("td a");
  if (!link) return;
  for (const other of event.currentTarget.querySelectorAll('td a[tabindex="0"]')) other.setAttribute("tabindex", "-1");
  link.setAttribute("tabindex", "0");
}

/** What the glyphs of the cells in sight mean: those of the runs first, then those of the steps. */
export function Legend({ grid }: { grid: Grid }) {
  const cells = grid.steps.flatMap((step) => step.cells.filter((cell) => cell !== null));
  return <GlyphLegend looks={looksOf([...grid.runs.map(runCell), ...cells.map(stepCell)])} />;
}
