import { Link } from "@tanstack/react-router";
import type { PlanRunFieldsFragment } from "../api/gen/graphql";
import { duration, shortId } from "../format/format";
import { m } from "../messages";
import { runCell, toneStyle } from "./glyphs";
import css from "./Plans.module.css";

/** The newest runs of a plan as small cells, the newest on the right. */
export function RunCells({ runs }: { runs: readonly PlanRunFieldsFragment[] }) {
  return (
    <span className={css.cells}>
      {runs.toReversed().map((run) => {
        const look = runCell(run);
        const name = m.plans.cell(
          look.word,
          run.durationMs === null ? "" : duration(run.durationMs),
          shortId(run.runId),
        );
        return (
          <Link
            key={run.runId}
            to="/runs/$runId"
            params={{ runId: run.runId }}
            search={{}}
            className={css.cell}
            style={toneStyle(look.tone)}
            aria-label={name}
            title={name}
          >
            {look.glyph}
          </Link>
        );
      })}
    </span>
  );
}
