import type { Palette } from "../ui/palette";
import { drawGlyph, type Glyph, GLYPHS } from "../status/glyphs";
import type { Mosaic } from "./place";

const GAP = 2;

/** Draws cells on a canvas. Each glyph is drawn once; a cell is a copy of it, so a changed cell costs one copy. */
export class Painter {
  readonly #ctx: CanvasRenderingContext2D;
  readonly #mosaic: Mosaic;
  readonly #ratio: number;
  readonly #sheet: HTMLCanvasElement;
  readonly #side: number;
  /** The number of cells drawn so far. */
  painted = 0;

  constructor(canvas: HTMLCanvasElement, mosaic: Mosaic, palette: Palette, ratio: number) {
    canvas.width = Math.ceil(mosaic.width * ratio);
    canvas.height = Math.ceil(mosaic.height * ratio);
    canvas.style.width = `${mosaic.width}px`;
    canvas.style.height = `${mosaic.height}px`;
    this.#ctx = context(canvas);
    this.#mosaic = mosaic;
    this.#ratio = ratio;
    this.#side = Math.ceil((mosaic.pitch - GAP) * ratio);
    this.#sheet = document.createElement("canvas");
    this.#sheet.width = this.#side * GLYPHS.length;
    this.#sheet.height = this.#side;
    const ctx = context(this.#sheet);
    for (const glyph of GLYPHS) {
      ctx.save();
      drawGlyph(ctx, glyph, this.#side, palette);
      ctx.restore();
      ctx.translate(this.#side, 0);
    }
  }

  paint(step: number, glyph: Glyph): void {
    const left = Math.round(((this.#mosaic.x[step] ?? 0) + GAP / 2) * this.#ratio);
    const top = Math.round(((this.#mosaic.y[step] ?? 0) + GAP / 2) * this.#ratio);
    const side = this.#side;
    this.#ctx.clearRect(left, top, side, side);
    this.#ctx.drawImage(this.#sheet, GLYPHS.indexOf(glyph) * side, 0, side, side, left, top, side, side);
    this.painted += 1;
  }
}

function context(canvas: HTMLCanvasElement): CanvasRenderingContext2D {
  const ctx = canvas.getContext("2d");
  if (!ctx) throw new Error("this browser draws no canvas");
  return ctx;
}
