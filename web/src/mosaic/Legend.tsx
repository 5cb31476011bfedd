import { Link } from "@tanstack/react-router";
import { useLayoutEffect, useRef } from "react";
import { pictures } from "../messages/pictures";
import { useRunStore } from "../runstate/context";
import { STEP_GROUPS, type StepGroup, type Tally } from "../status/stepGroup";
import { type Hold, holdOf } from "../topology/hold";
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

interface Key {
  name: string;
  glyph: Glyph;
  show: StepFilter[];
  n: number;
}

/**
 * The keys of the legend. A failure holds some of the pending steps, and some of these need it. The numbers are those of
 * the filters that the keys lead to.
 */
export function keysOf(tally: Tally, { held, needs }: Hold): Key[] {
  return STEP_GROUPS.flatMap((group): Key[] => {
    const key = { name: pictures.mosaic.groups[group], ...SHOWN[group], n: tally[group] };
    if (group !== "pending" || held.size === 0) return [key];
    return [
      { name: pictures.grid.held, glyph: "held" as const, show: ["HELD" as const], n: held.size },
      { name: pictures.grid.blocked, glyph: "blocked" as const, show: ["BLOCKED" as const], n: needs.size },
      { ...key, n: tally.pending - held.size },
    ].filter(({ n }) => n > 0);
  });
}

/** The meaning of the shapes and their number; each leads to its steps in the table. */
export function Legend({ tally }: { tally: Tally }) {
  const store = useRunStore();
  return (
    <ul className={css.legend}>
      {keysOf(tally, holdOf(store)).map(({ name, glyph, show, n }) => (
        <li key={glyph} data-none={n === 0 || undefined}>
          <Link from="/runs/$runId" to="." search={(old) => ({ ...old, view: "steps", show })} className={css.key}>
            <GlyphMark glyph={glyph} />
            {name} <strong>{count(n)}</strong>
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
