import { type PointerEvent, type RefObject, useCallback, useEffect, useLayoutEffect, useRef, useState } from "react";
import {
  type Camera,
  centred,
  clipped,
  covers,
  fitting,
  held,
  type Region,
  sight,
  type Size,
  ZOOM,
  zoomed,
} from "./camera";

/** The border that is drawn around the pane, in pixels: while it moves, and at rest, when drawing disturbs nobody. */
const AHEAD = { moving: 320, resting: 720 };
const REST_MS = 150;
const DRAG = 4;
const RESIZED = 40;

/** The part to draw. It changes when the view leaves it, zooms, or rests near its edge, not with each movement. */
export interface View {
  scale: number;
  region: Region;
  /** The part in which steps are buttons: the part that was visible at rest, and a border. */
  near: Region;
}

export interface CameraControl {
  pane: RefObject<HTMLDivElement | null>;
  /** The element that moves, and the element in it that is scaled: its children have coordinates of the drawing. */
  moved: RefObject<HTMLDivElement | null>;
  scaled: RefObject<HTMLDivElement | null>;
  view: View | null;
  /** The visible part, now. */
  seen: () => Region;
  onMove: (listener: () => void) => () => void;
  fit: () => void;
  zoomBy: (factor: number) => void;
  center: (x: number, y: number, scale?: number) => void;
  /** The point of the drawing under the pointer; null after a drag. */
  under: (event: { clientX: number; clientY: number }) => { x: number; y: number } | null;
  pointer: {
    onPointerDown: (event: PointerEvent) => void;
    onPointerMove: (event: PointerEvent) => void;
    onPointerUp: () => void;
  };
}

function viewOf(held: View | null, camera: Camera, box: Size, world: Size): View {
  const { scale } = camera;
  if (held?.scale === scale && covers(held.region, clipped(sight(camera, box), world))) return held;
  const region = clipped(sight(camera, box, AHEAD.moving), world);
  return { scale, region, near: held?.scale === scale ? held.near : region };
}

/** At rest a larger part is drawn, and visible steps become buttons. */
function restingView(held: View | null, camera: Camera, box: Size, world: Size): View {
  const { scale } = camera;
  // A dense screen needs more pixels for the same area.
  const ahead = AHEAD.resting / Math.min(2, devicePixelRatio);
  const near = clipped(sight(camera, box, AHEAD.moving / 2), world);
  const drawn = held?.scale === scale && covers(held.region, clipped(sight(camera, box, ahead / 2), world));
  const same = drawn && covers(held.near, clipped(sight(camera, box), world));
  if (same) return held;
  return { scale, region: drawn ? held.region : clipped(sight(camera, box, ahead), world), near };
}

/** Moves a drawing in its pane by pointer, wheel (Ctrl zooms) and calls. `opening` is the first view. */
export function useCamera(world: Size, opening: (box: Size) => Camera): CameraControl {
  const pane = useRef<HTMLDivElement>(null);
  const moved = useRef<HTMLDivElement>(null);
  const scaled = useRef<HTMLDivElement>(null);
  const rest = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const camera = useRef<Camera>({ x: 0, y: 0, scale: 1 });
  const frame = useRef(0);
  const drag = useRef<{ x: number; y: number; from: Camera; far: boolean } | null>(null);
  /** Somebody moved or zoomed the drawing since it was opened or fitted. */
  const touched = useRef(false);
  const listeners = useRef(new Set<() => void>());
  const [view, setView] = useState<View | null>(null);

  const box = useCallback(
    (): Size => ({ width: pane.current?.clientWidth ?? 0, height: pane.current?.clientHeight ?? 0 }),
    [],
  );
  const show = useCallback(
    (next: Camera): boolean => {
      const before = camera.current;
      const now = held(next, world, box());
      camera.current = now;
      // Two elements, because a layer of its own moves without repainting but is blurred by a scale.
      if (moved.current) moved.current.style.transform = `translate(${now.x}px, ${now.y}px)`;
      if (scaled.current) scaled.current.style.transform = `scale(${now.scale})`;
      for (const listener of listeners.current) listener();
      frame.current ||= requestAnimationFrame(() => {
        frame.current = 0;
        setView((held) => viewOf(held, camera.current, box(), world));
      });
      clearTimeout(rest.current);
      rest.current = setTimeout(() => setView((held) => restingView(held, camera.current, box(), world)), REST_MS);
      return before.x !== now.x || before.y !== now.y || before.scale !== now.scale;
    },
    [world, box],
  );

  const open = useRef(opening);
  open.current = opening;
  useLayoutEffect(() => {
    show(open.current(box()));
    return () => {
      cancelAnimationFrame(frame.current);
      frame.current = 0;
      clearTimeout(rest.current);
    };
  }, [show, box]);

  useEffect(() => {
    const element = pane.current;
    if (!element) return;
    const onWheel = (event: WheelEvent): void => {
      const { left, top } = element.getBoundingClientRect();
      const now = camera.current;
      touched.current = true;
      const moves = event.ctrlKey
        ? show(zoomed(now, Math.exp(-event.deltaY / 200), event.clientX - left, event.clientY - top))
        : show({ ...now, x: now.x - event.deltaX, y: now.y - event.deltaY });
      // At the edge of the drawing the page scrolls.
      if (moves || event.ctrlKey) event.preventDefault();
    };
    let width = element.clientWidth;
    const observer = new ResizeObserver(() => {
      // A pane that became narrower or wider, as when a step opens beside it, is a new picture, unless one has moved it.
      if (Math.abs(element.clientWidth - width) > RESIZED && !touched.current) show(open.current(box()));
      else show(camera.current);
      width = element.clientWidth;
    });
    observer.observe(element);
    element.addEventListener("wheel", onWheel, { passive: false });
    return () => {
      observer.disconnect();
      element.removeEventListener("wheel", onWheel);
    };
  }, [show, box]);

  const under = ({ clientX, clientY }: { clientX: number; clientY: number }): { x: number; y: number } | null => {
    const element = pane.current;
    if (!element || drag.current?.far) return null;
    const { left, top } = element.getBoundingClientRect();
    const { x, y, scale } = camera.current;
    return { x: (clientX - left - x) / scale, y: (clientY - top - y) / scale };
  };
  return {
    pane,
    moved,
    scaled,
    view,
    under,
    seen: () => sight(camera.current, box()),
    onMove: useCallback((listener: () => void) => {
      listeners.current.add(listener);
      return () => listeners.current.delete(listener);
    }, []),
    fit: () => {
      touched.current = false;
      show({ x: 0, y: 0, scale: fitting(world, box()) });
    },
    zoomBy: (factor) => {
      touched.current = true;
      show(zoomed(camera.current, factor, box().width / 2, box().height / 2));
    },
    center: (x, y, scale = camera.current.scale) => show(centred(x, y, Math.min(ZOOM.max, scale), box())),
    pointer: {
      onPointerDown: (event) => {
        if (event.button === 0) drag.current = { x: event.clientX, y: event.clientY, from: camera.current, far: false };
      },
      onPointerMove: (event) => {
        const from = drag.current;
        if (!from || event.buttons === 0) return;
        const [dx, dy] = [event.clientX - from.x, event.clientY - from.y];
        if (!from.far && Math.hypot(dx, dy) < DRAG) return;
        if (!from.far) pane.current?.setPointerCapture(event.pointerId);
        from.far = true;
        touched.current = true;
        show({ ...from.from, x: from.from.x + dx, y: from.from.y + dy });
      },
      // The browser sends a click after a drag; it is ignored.
      onPointerUp: () => void setTimeout(() => (drag.current = null)),
    },
  };
}
