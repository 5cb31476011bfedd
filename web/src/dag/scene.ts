// Draws edges and small steps on canvases that cover a part of the drawing.
import type { LucideIcon } from "lucide-react";
import type { Tone } from "../ui/tones";
import type { Palette } from "../ui/palette";
import type { Region } from "./camera";
import { drawIcon } from "./icons";
import { type Layout, leftOf, NODE } from "./layout";
import { at } from "../topology/shape";

export type EdgeKind = "open" | "done" | "blocked" | "failed";
const KINDS: readonly EdgeKind[] = ["open", "done", "blocked", "failed"];
/** Below this scale an edge is a straight line, and a step is a block of colour. */
export const FAR = 0.3;
const MANY = 200;
const PATHS = 60;
const RADIUS = 6;
/** The icon of a node, and its distance from the edge, as in the style sheet of nodes. */
const ICON = { size: 16, left: 10 };

/** As the borders of the style sheet of nodes: dashed and dotted. */
const DASH = { behind: [3, 3], held: [1, 1] };

export interface Seen {
  tone: Tone;
  icon: LucideIcon;
  label: string;
  /** What keeps a waiting step from starting, which its border shows: a failed step that it needs, or any other. */
  waits: "behind" | "held" | null;
  /** Filled at a small scale, so that it is found among thousands. */
  loud: boolean;
}

/** The letters that fit into a line of a node. */
export const LINE = 17;
const LINE_HEIGHT = 15;

/** A label on at most two lines. They break behind a word, as near to the middle as there is one. */
export function linesOf(label: string): string[] {
  if (label.length <= LINE) return [label];
  const ends = [...label.matchAll(/[ _.\-/]/g)].map(({ index }) => index + 1).filter((end) => end < label.length);
  const middle = label.length / 2;
  const end = ends.toSorted((a, b) => Math.abs(a - middle) - Math.abs(b - middle))[0] ?? Math.ceil(middle);
  return [label.slice(0, end).trimEnd(), label.slice(end)];
}

export class Scene {
  readonly #layout: Layout;
  readonly #top: Float32Array;
  readonly #bottom: Float32Array;

  constructor(layout: Layout) {
    this.#layout = layout;
    const { from, to, y, bend, bends } = layout;
    this.#top = new Float32Array(from.length);
    this.#bottom = new Float32Array(from.length);
    from.forEach((source, e) => {
      const [a, b] = [at(y, source), at(y, at(to, e))];
      const through = bends.subarray(at(bend, e), at(bend, e + 1));
      this.#top[e] = through.reduce((least, height) => Math.min(least, height), Math.min(a, b));
      this.#bottom[e] = through.reduce((most, height) => Math.max(most, height), Math.max(a, b) + NODE.height);
    });
  }

  /** The steps that overlap a part of the drawing. */
  within({ left, top, right, bottom }: Region): number[] {
    const { x, y } = this.#layout;
    const found: number[] = [];
    x.forEach((nodeLeft, i) => {
      const nodeTop = at(y, i);
      if (nodeLeft <= right && nodeLeft + NODE.width >= left && nodeTop <= bottom && nodeTop + NODE.height >= top)
        found.push(i);
    });
    return found;
  }

  /** The step at a point of the drawing, or null. */
  at(px: number, py: number): number | null {
    return this.within({ left: px, right: px, top: py, bottom: py })[0] ?? null;
  }

  edges(
    ctx: CanvasRenderingContext2D,
    region: Region,
    scale: number,
    kindOf: (edge: number) => EdgeKind,
    palette: Palette,
  ): void {
    const { from, to, x } = this.#layout;
    const groups: Record<EdgeKind, number[]> = { open: [], done: [], blocked: [], failed: [] };
    from.forEach((source, e) => {
      if (at(x, source) > region.right || at(x, at(to, e)) + NODE.width < region.left) return;
      if (at(this.#top, e) > region.bottom || at(this.#bottom, e) < region.top) return;
      groups[kindOf(e)].push(e);
    });
    const width: Record<EdgeKind, number> = { open: 1.25, done: 1.25, blocked: 1.5, failed: 3 };
    const colour: Record<EdgeKind, string> = {
      open: palette.control,
      done: palette.success,
      blocked: palette.failed,
      failed: palette.failed,
    };
    for (const kind of KINDS) {
      ctx.strokeStyle = colour[kind];
      ctx.globalAlpha = from.length > MANY && (kind === "open" || kind === "done") ? 0.4 : 1;
      ctx.lineWidth = Math.max(width[kind], (kind === "failed" ? 1.5 : 0.6) / scale);
      ctx.setLineDash(kind === "blocked" ? [5 / Math.min(1, scale), 4 / Math.min(1, scale)] : []);
      for (let first = 0; first < groups[kind].length; first += PATHS) {
        ctx.beginPath();
        for (const e of groups[kind].slice(first, first + PATHS)) this.#trace(ctx, e, scale < FAR);
        ctx.stroke();
      }
    }
    ctx.globalAlpha = 1;
    ctx.setLineDash([]);
  }

  /** Draws an edge: straight through the layers, S-curves between them. */
  #trace(ctx: CanvasRenderingContext2D, e: number, straight: boolean): void {
    const { from, to, layer, x, y, bend, bends } = this.#layout;
    const [source, target] = [at(from, e), at(to, e)];
    let [px, py] = [at(x, source) + NODE.width, at(y, source) + NODE.height / 2];
    ctx.moveTo(px, py);
    const reach = (nx: number, ny: number): void => {
      const middle = (px + nx) / 2;
      if (straight || py === ny) ctx.lineTo(nx, ny);
      else ctx.bezierCurveTo(middle, py, middle, ny, nx, ny);
      [px, py] = [nx, ny];
    };
    for (let k = at(bend, e); k < at(bend, e + 1); k++) {
      const left = leftOf(at(layer, source) + 1 + k - at(bend, e));
      reach(left, at(bends, k));
      reach(left + NODE.width, at(bends, k));
    }
    reach(at(x, target), at(y, target) + NODE.height / 2);
  }

  node(ctx: CanvasRenderingContext2D, i: number, scale: number, seen: Seen, palette: Palette, labelled: boolean): void {
    const [x, y] = [at(this.#layout.x, i), at(this.#layout.y, i)];
    if (scale < FAR) {
      // A step that stands out is never too small to be seen.
      const [width, height] = seen.loud
        ? [Math.max(NODE.width, 8 / scale), Math.max(NODE.height, 5 / scale)]
        : [NODE.width, NODE.height];
      ctx.fillStyle = palette[seen.tone];
      ctx.globalAlpha = seen.loud ? 1 : 0.55;
      ctx.fillRect(x + (NODE.width - width) / 2, y + (NODE.height - height) / 2, width, height);
      ctx.globalAlpha = 1;
      return;
    }
    ctx.clearRect(x - 1, y - 1, NODE.width + 2, NODE.height + 2);
    ctx.beginPath();
    ctx.roundRect(x + 0.5, y + 0.5, NODE.width - 1, NODE.height - 1, RADIUS);
    ctx.fillStyle =
      !seen.loud && labelled
        ? palette.raised
        : seen.loud && !labelled
          ? palette[seen.tone]
          : palette[`${seen.tone}-tint`];
    ctx.fill();
    ctx.strokeStyle = seen.waits === "behind" ? palette.failed : palette[seen.tone];
    ctx.setLineDash(seen.waits === null ? [] : DASH[seen.waits]);
    ctx.lineWidth = 1;
    ctx.stroke();
    ctx.setLineDash([]);
    if (!labelled) return;
    ctx.save();
    ctx.translate(x + ICON.left, y + (NODE.height - ICON.size) / 2);
    drawIcon(ctx, seen.icon, ICON.size, palette[seen.tone]);
    ctx.restore();
    ctx.fillStyle = palette.text;
    ctx.textBaseline = "middle";
    const lines = linesOf(seen.label);
    lines.forEach((line, k) => {
      const middle = y + NODE.height / 2 + (k - (lines.length - 1) / 2) * LINE_HEIGHT;
      ctx.fillText(line, x + 34, middle, NODE.width - 40);
    });
  }
}
