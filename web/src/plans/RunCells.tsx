import { Link } from "@tanstack/react-router";
import type { PlanRunFieldsFragment } from "../api/gen/graphql";
import { duration, shortId } from "../format/format";
import { m } from "../messages";
import { type CellLook, runCell, toneStyle } from "./glyphs";
import css from "./Plans.module.css";

/** A run as a small cell that leads to it. `at` is shown with its name under the pointer. */
export function RunCell({ run, at }: { run: PlanRunFieldsFragment; at?: string }) {
  const look = runCell(run);
  const name = m.plans.cell(look.word, run.durationMs === null ? "" : duration(run.durationMs), shortId(run.runId));
  return (
    <Link
      to="/runs/$runId"
      params={{ runId: run.runId }}
      search={{}}
      className={css.cell}
      style={toneStyle(look.tone)}
      aria-label={name}
      title={at === undefined ? name : `${name}\n${at}`}
    >
      {look.glyph}
    </Link>
  );
}

/** The glyphs of cells, each with its words. */
export function GlyphLegend({ looks }: { looks: readonly CellLook[] }) {
  return (
    <ul className={css.legend} aria-label={m.plans.legend}>
      {looks.map(({ glyph, tone, word }) => (
        <li key={glyph}>
          <span className={css.cell} style={toneStyle(tone)} aria-hidden="true">
            {glyph}
          </span>{" "}
          {word}
        </li>
      ))}
    </ul>
  );
}

/** The newest runs of a plan as small cells, the newest on the right. */
export function RunCells({ runs }: { runs: readonly PlanRunFieldsFragment[] }) {
  return (
    <span className={css.cells}>
      {runs.toReversed().map((run) => (
        <RunCell key={run.runId} run={run} />
      ))}
    </span>
  );
}
