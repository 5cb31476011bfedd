import { Link } from "@tanstack/react-router";
import { useLayoutEffect, useRef } from "react";
import { pictures } from "../messages/pictures";
import { STEP_GROUPS, type StepGroup, type Tally } from "../status/stepGroup";
import type { StepFilter } from "../address/views";
import { count } from "../format/format";
import { usePalette } from "../ui/palette";
import { drawGlyph, type Glyph } from "../status/glyphs";
import css from "./Mosaic.module.css";

const SIDE = 11;
const SHOWN: Record<StepGroup, { glyph: Glyph; show: StepFilter[] }> = {
  failed: { glyph: "failed", show: ["FAILED"] },
  waiting: { glyph: "person", show: ["WAITING"] },
  running: { glyph: "running", show: ["RUNNING"] },
  pending: { glyph: "pending", show: ["PENDING"] },
  skipped: { glyph: "skipped", show: ["SKIPPED"] },
  ok: { glyph: "success", show: ["SUCCESS"] },
};

/** The meaning of the shapes and their number; each leads to its steps in the table. */
export function Legend({ tally }: { tally: Tally }) {
  return (
    <ul className={css.legend}>
      {STEP_GROUPS.map((group) => (
        <li key={group} data-none={tally[group] === 0 || undefined}>
          <Link
            from="/runs/$runId"
            to="."
            search={(old) => ({ ...old, view: "steps", show: SHOWN[group].show })}
            className={css.key}
          >
            <GlyphMark glyph={SHOWN[group].glyph} />
            {pictures.mosaic.groups[group]} <strong>{count(tally[group])}</strong>
          </Link>
        </li>
      ))}
    </ul>
  );
}

function GlyphMark({ glyph }: { glyph: Glyph }) {
  const palette = usePalette();
  const canvas = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => {
    const element = canvas.current;
    const ctx = element?.getContext("2d");
    if (!element || !ctx) return;
    element.width = Math.ceil(SIDE * devicePixelRatio);
    element.height = element.width;
    drawGlyph(ctx, glyph, element.width, palette);
  }, [glyph, palette]);
  return <canvas ref={canvas} className={css.glyph} aria-hidden="true" />;
}
