import { useEffect, useLayoutEffect, useRef } from "react";
import type { Step } from "../api/model";
import { useRunStore } from "../runstate/context";
import { stepLook } from "../status/look";
import { usePalette } from "../ui/palette";
import type { Blocked } from "../topology/blocked";
import { type Region, ZOOM } from "./camera";
import css from "./Graph.module.css";
import type { Layout } from "./layout";
import { holdOf } from "../topology/hold";
import { type EdgeKind, FAR, type Scene, type Seen } from "./scene";
import { at, type Shape } from "../topology/shape";
import type { View } from "./useCamera";

/** Overlapping parts are drawn again together, at most this often: edges, and steps so small that they overlap. */
const REDRAW_MS = 400;
const LOUD: ReadonlySet<string> = new Set(["FAILED", "RUNNING", "UNKNOWN"]);

interface CanvasesProps {
  shape: Shape;
  layout: Layout;
  scene: Scene;
  view: View;
  blocked: Blocked;
}

/** Draws all edges and steps of a part of the drawing. A step that changes is drawn alone. */
export function Canvases({ shape, layout, scene, view, blocked }: CanvasesProps) {
  const store = useRunStore();
  const palette = usePalette();
  const edges = useRef<HTMLCanvasElement>(null);
  const nodes = useRef<HTMLCanvasElement>(null);
  const shown = useRef<Shape | null>(null);
  const { region, scale } = view;
  // Before the first paint: drawing takes longer, and a canvas without a place is painted where it does not belong.
  useLayoutEffect(() => {
    for (const canvas of [edges.current, nodes.current]) if (canvas) place(canvas, region);
  }, [region]);
  useEffect(() => {
    const edgeCtx = prepared(edges.current, region, scale);
    const nodeCtx = prepared(nodes.current, region, scale);
    if (!edgeCtx || !nodeCtx) return;
    nodeCtx.font = "13px system-ui, sans-serif";
    const kindOf = (e: number): EdgeKind => {
      const [source, target] = [at(layout.from, e), at(layout.to, e)];
      const from = store.step(shape.ids[source] ?? "");
      const status = from?.status;
      const behind = blocked.has(target);
      if (from && status === "FAILED") return stepLook(from).tone === "cancelled" ? "open" : "failed";
      if (behind && blocked.has(source)) return "blocked";
      return status === "SUCCESS" ? "done" : "open";
    };
    const drawEdges = (): void => {
      edgeCtx.clearRect(region.left, region.top, region.right - region.left, region.bottom - region.top);
      scene.edges(edgeCtx, region, scale, kindOf, palette);
    };
    const drawNode = (i: number): void => {
      const step = store.step(shape.ids[i] ?? "");
      if (step)
        scene.node(
          nodeCtx,
          i,
          scale,
          seenOf(step, blocked.has(i), holdOf(store).held.has(step.stepId)),
          palette,
          scale >= ZOOM.labels,
        );
    };
    const inSight = scene.within(region);
    const loud = (i: number): boolean => LOUD.has(store.step(shape.ids[i] ?? "")?.status ?? "");
    const drawNodes = (): void => {
      nodeCtx.clearRect(region.left, region.top, region.right - region.left, region.bottom - region.top);
      for (const i of inSight) if (!loud(i)) drawNode(i);
      for (const i of inSight) if (loud(i)) drawNode(i);
    };
    drawEdges();
    drawNodes();
    if (shown.current !== shape) {
      shown.current = shape;
      performance.clearMarks("dvt:graph");
      performance.mark("dvt:graph");
    }

    const drawn = new Set(inSight);
    const dirty = new Set<number>();
    let frame = 0;
    let timer: ReturnType<typeof setTimeout> | null = null;
    const stop = store.subscribeSteps((changed) => {
      for (const id of changed) dirty.add(shape.index.get(id) ?? -1);
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        if (scale >= FAR) for (const i of dirty) if (drawn.has(i)) drawNode(i);
        dirty.clear();
      });
      timer ??= setTimeout(() => {
        timer = null;
        drawEdges();
        if (scale < FAR) drawNodes();
      }, REDRAW_MS);
    });
    return () => {
      stop();
      cancelAnimationFrame(frame);
      if (timer !== null) clearTimeout(timer);
    };
  }, [store, shape, layout, scene, region, scale, blocked, palette]);
  return (
    <>
      <canvas ref={edges} className={css.canvas} aria-hidden="true" />
      <canvas ref={nodes} className={css.canvas} aria-hidden="true" />
    </>
  );
}

function seenOf(step: Step, behind: boolean, held: boolean): Seen {
  const { tone, icon } = stepLook(step);
  const waits = behind ? "behind" : held ? "held" : null;
  return { tone, icon, label: step.name ?? step.stepId, waits, loud: LOUD.has(step.status) };
}

/** Puts a canvas over a region. */
function place(canvas: HTMLCanvasElement, { left, top, right, bottom }: Region): void {
  Object.assign(canvas.style, {
    left: `${left}px`,
    top: `${top}px`,
    width: `${right - left}px`,
    height: `${bottom - top}px`,
  });
}

/** The context of a canvas over a region, in the coordinates of the drawing. */
function prepared(canvas: HTMLCanvasElement | null, region: Region, scale: number): CanvasRenderingContext2D | null {
  const ctx = canvas?.getContext("2d");
  if (!canvas || !ctx) return null;
  const ratio = Math.min(2, devicePixelRatio) * scale;
  const [width, height] = [region.right - region.left, region.bottom - region.top];
  canvas.width = Math.max(1, Math.ceil(width * ratio));
  canvas.height = Math.max(1, Math.ceil(height * ratio));
  ctx.setTransform(ratio, 0, 0, ratio, -region.left * ratio, -region.top * ratio);
  return ctx;
}
