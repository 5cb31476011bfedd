// The icons of statuses as paths for canvases, so that a step looks the same as a button and as a drawing.
import {
  Ban,
  CircleCheck,
  CircleDashed,
  CirclePlay,
  CircleQuestionMark,
  type LucideIcon,
  OctagonX,
  RotateCcw,
  SkipForward,
  UserCheck,
} from "lucide-react";

/** The width and height of the paths. */
const SIDE = 24;
const RING = "M2 12a10 10 0 1 0 20 0a10 10 0 1 0-20 0";
const OCTAGON =
  "M2.586 16.726A2 2 0 0 1 2 15.312V8.688a2 2 0 0 1 .586-1.414l4.688-4.688A2 2 0 0 1 8.688 2h6.624a2 2 0 0 1 1.414.586" +
  "l4.688 4.688A2 2 0 0 1 22 8.688v6.624a2 2 0 0 1-.586 1.414l-4.688 4.688a2 2 0 0 1-1.414.586H8.688" +
  "a2 2 0 0 1-1.414-.586z";
const DASHES =
  "M10.1 2.182a10 10 0 0 1 3.8 0M13.9 21.818a10 10 0 0 1-3.8 0M17.609 3.721a10 10 0 0 1 2.69 2.7" +
  "M2.182 13.9a10 10 0 0 1 0-3.8M20.279 17.609a10 10 0 0 1-2.7 2.69M21.818 10.1a10 10 0 0 1 0 3.8" +
  "M3.721 6.391a10 10 0 0 1 2.7-2.69M6.391 20.279a10 10 0 0 1-2.69-2.7";

/** The paths as lucide-react has them. It exports components alone, and a canvas cannot draw those. */
export const PATHS: ReadonlyMap<LucideIcon, string> = new Map([
  [CircleCheck, `${RING}M16 9l-5.5 5.5L8 12`],
  [CirclePlay, `${RING}M9 9.003a1 1 0 0 1 1.517-.859l4.997 2.997a1 1 0 0 1 0 1.718l-4.997 2.997A1 1 0 0 1 9 14.996z`],
  [CircleQuestionMark, `${RING}M9 9.5a3 2.5 0 016 0c0 2-2 2-3 3.5M12 17h.01`],
  [Ban, `${RING}M4.929 4.929L19.07 19.071`],
  [CircleDashed, DASHES],
  [OctagonX, `${OCTAGON}M15 9l-6 6M9 9l6 6`],
  [RotateCcw, "M3 12a9 9 0 1 0 9-9 9.75 9.75 0 0 0-6.74 2.74L3 8M3 3v5h5"],
  [SkipForward, "M21 4v16M6.029 4.285A2 2 0 0 0 3 6v12a2 2 0 0 0 3.029 1.715l9.997-5.998a2 2 0 0 0 .003-3.432z"],
  [UserCheck, "M16 11l2 2 4-4M16 21v-2a4 4 0 0 0-4-4H6a4 4 0 0 0-4 4v2M5 7a4 4 0 1 0 8 0a4 4 0 1 0-8 0"],
]);
const drawn = new Map<LucideIcon, Path2D>();

/** Draws an icon into the square of `size` pixels at the origin. */
export function drawIcon(ctx: CanvasRenderingContext2D, icon: LucideIcon, size: number, colour: string): void {
  const path = drawn.get(icon) ?? new Path2D(PATHS.get(icon));
  drawn.set(icon, path);
  ctx.strokeStyle = colour;
  ctx.lineWidth = 2;
  ctx.lineCap = "round";
  ctx.lineJoin = "round";
  ctx.scale(size / SIDE, size / SIDE);
  ctx.stroke(path);
}
