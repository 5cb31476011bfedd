// The camera: a point of the drawing appears at `point * scale + (x, y)` in the pane.

export interface Camera {
  x: number;
  y: number;
  scale: number;
}
export interface Size {
  width: number;
  height: number;
}
/** A part of the drawing. */
export interface Region {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

export const ZOOM = { min: 0.02, max: 1.5, labels: 0.6, step: 1.25 };
const MARGIN = 16;

export function fitting(world: Size, box: Size): number {
  const ratio = Math.min(
    (box.width - 2 * MARGIN) / Math.max(1, world.width),
    (box.height - 2 * MARGIN) / Math.max(1, world.height),
  );
  return Math.max(ZOOM.min, Math.min(1, ratio));
}

/** Below this scale names are hard to read. */
const READABLE = 0.7;

/** The scale of a drawing that fits at `whole`: it may leave the pane only where its names could not be read. */
export function legible(whole: number): number {
  return whole >= READABLE ? whole : READABLE + 0.05;
}

/**
 * Keeps the drawing in the pane: centred when it is smaller, and without empty space beyond the margin when it is
 * larger.
 */
export function held({ x, y, scale }: Camera, world: Size, box: Size): Camera {
  const along = (offset: number, size: number, room: number): number => {
    const free = room - size * scale;
    return free >= 2 * MARGIN ? free / 2 : Math.min(MARGIN, Math.max(free - MARGIN, offset));
  };
  return { x: along(x, world.width, box.width), y: along(y, world.height, box.height), scale };
}

/** Zooms around a point of the pane, which stays where it is. */
export function zoomed({ x, y, scale }: Camera, factor: number, px: number, py: number): Camera {
  const next = Math.max(ZOOM.min, Math.min(ZOOM.max, scale * factor));
  return { x: px - ((px - x) * next) / scale, y: py - ((py - y) * next) / scale, scale: next };
}

export function centred(px: number, py: number, scale: number, box: Size): Camera {
  return { x: box.width / 2 - px * scale, y: box.height / 2 - py * scale, scale };
}

/** The visible part of the drawing, with a border of `more` pixels. */
export function sight({ x, y, scale }: Camera, box: Size, more = 0): Region {
  return {
    left: (-x - more) / scale,
    top: (-y - more) / scale,
    right: (box.width - x + more) / scale,
    bottom: (box.height - y + more) / scale,
  };
}

export function covers(outer: Region, inner: Region): boolean {
  return (
    outer.left <= inner.left && outer.top <= inner.top && outer.right >= inner.right && outer.bottom >= inner.bottom
  );
}

export function clipped(region: Region, world: Size): Region {
  return {
    left: Math.max(-MARGIN, region.left),
    top: Math.max(-MARGIN, region.top),
    right: Math.min(world.width + MARGIN, region.right),
    bottom: Math.min(world.height + MARGIN, region.bottom),
  };
}
