// The shapes of cells. Shape tells statuses apart without colour.
import type { Step } from "../api/model";
import type { Look, Tone } from "../ui/tones";
import { stepLook } from "./look";
import type { Palette } from "../ui/palette";

export const GLYPHS = [
  "failed",
  "person",
  "unknown",
  "latched",
  "running",
  "blocked",
  "held",
  "pending",
  "skipped",
  "success",
] as const;
export type Glyph = (typeof GLYPHS)[number];

const TONES: Record<Glyph, Tone> = {
  failed: "failed",
  person: "person",
  unknown: "unknown",
  latched: "running",
  running: "running",
  blocked: "failed",
  held: "pending",
  pending: "pending",
  skipped: "skipped",
  success: "success",
};

/** The shape of a step; `held` steps cannot start while a step that they do not need is failed. */
export function glyphOf(step: Step, blocked: boolean, held = false): Glyph {
  if (step.pendingRetry) return "latched";
  if (blocked) return "blocked";
  if (held) return "held";
  const { tone }: Look = stepLook(step);
  if (tone === "cancelled") return "skipped";
  return GLYPHS.find((glyph) => glyph === tone) ?? "unknown";
}

/** Draws a glyph into the square of `size` pixels at the origin. */
export function drawGlyph(ctx: CanvasRenderingContext2D, glyph: Glyph, size: number, palette: Palette): void {
  const colour = palette[TONES[glyph]];
  ctx.fillStyle = colour;
  ctx.strokeStyle = colour;
  const middle = size / 2;
  const thin = Math.max(1, size / 8);
  const inset = thin / 2;
  ctx.lineWidth = thin;
  ctx.beginPath();
  switch (glyph) {
    case "failed":
      ctx.fillRect(0, 0, size, size);
      ctx.strokeStyle = palette.page;
      ctx.lineWidth = Math.max(1.25, size / 7);
      line(ctx, size * 0.25, size * 0.25, size * 0.75, size * 0.75);
      line(ctx, size * 0.75, size * 0.25, size * 0.25, size * 0.75);
      ctx.stroke();
      return;
    case "person":
      diamond(ctx, middle, 0);
      ctx.fill();
      return;
    case "unknown":
      diamond(ctx, middle, inset * 1.5);
      ctx.stroke();
      return;
    case "running":
      triangle(ctx, size, 0);
      ctx.fill();
      return;
    case "latched":
      triangle(ctx, size, inset * 1.5);
      ctx.stroke();
      return;
    case "blocked":
      ctx.setLineDash([size / 4, size / 6]);
      ctx.strokeRect(inset, inset, size - thin, size - thin);
      ctx.setLineDash([]);
      return;
    case "held":
      ctx.setLineDash([size / 4, size / 6]);
      ctx.strokeRect(inset, inset, size - thin, size - thin);
      ctx.setLineDash([]);
      return;
    case "pending":
      ctx.arc(middle, middle, size * 0.3, 0, 2 * Math.PI);
      ctx.stroke();
      return;
    case "skipped":
      ctx.fillRect(size * 0.12, middle - thin, size * 0.76, 2 * thin);
      return;
    case "success":
      ctx.arc(middle, middle, size * 0.4, 0, 2 * Math.PI);
      ctx.fill();
  }
}

function line(ctx: CanvasRenderingContext2D, x1: number, y1: number, x2: number, y2: number): void {
  ctx.moveTo(x1, y1);
  ctx.lineTo(x2, y2);
}

function diamond(ctx: CanvasRenderingContext2D, middle: number, inset: number): void {
  ctx.moveTo(middle, inset);
  ctx.lineTo(2 * middle - inset, middle);
  ctx.lineTo(middle, 2 * middle - inset);
  ctx.lineTo(inset, middle);
  ctx.closePath();
}

function triangle(ctx: CanvasRenderingContext2D, size: number, inset: number): void {
  ctx.moveTo(size * 0.12 + inset, inset);
  ctx.lineTo(size - inset, size / 2);
  ctx.lineTo(size * 0.12 + inset, size - inset);
  ctx.closePath();
}
