import { useEffect, useRef } from "react";
import { pictures } from "../messages/pictures";
import { useRunStore } from "../runstate/context";
import { stepLook } from "../status/look";
import { usePalette } from "../ui/palette";
import css from "./Graph.module.css";
import { type Layout, NODE } from "./layout";
import { at, type Shape } from "../topology/shape";
import type { CameraControl } from "./useCamera";

const SIZE = { width: 168, height: 104 };
const PAINT_MS = 500;

/** The whole drawing in a corner, with a frame around the visible part. A click moves there. */
export function Minimap({ shape, layout, camera }: { shape: Shape; layout: Layout; camera: CameraControl }) {
  const store = useRunStore();
  const palette = usePalette();
  const canvas = useRef<HTMLCanvasElement>(null);
  const frame = useRef<HTMLSpanElement>(null);
  const scale = Math.min(SIZE.width / layout.width, SIZE.height / layout.height);
  const [width, height] = [layout.width * scale, layout.height * scale];

  useEffect(() => {
    const ctx = canvas.current?.getContext("2d");
    if (!ctx || !canvas.current) return;
    canvas.current.width = Math.ceil(width * devicePixelRatio);
    canvas.current.height = Math.ceil(height * devicePixelRatio);
    const paint = (): void => {
      ctx.setTransform(scale * devicePixelRatio, 0, 0, scale * devicePixelRatio, 0, 0);
      ctx.clearRect(0, 0, layout.width, layout.height);
      const least = 2 / scale;
      shape.ids.forEach((id, i) => {
        const step = store.step(id);
        if (!step) return;
        ctx.fillStyle = palette[stepLook(step).tone];
        ctx.fillRect(at(layout.x, i), at(layout.y, i), Math.max(NODE.width, least), Math.max(NODE.height, least));
      });
    };
    paint();
    let timer: ReturnType<typeof setTimeout> | null = null;
    const stop = store.subscribeSteps(() => {
      timer ??= setTimeout(() => {
        timer = null;
        paint();
      }, PAINT_MS);
    });
    return () => {
      stop();
      if (timer !== null) clearTimeout(timer);
    };
  }, [store, shape, layout, palette, scale, width, height]);

  const { onMove, seen } = camera;
  useEffect(() => {
    const follow = (): void => {
      const { left, top, right, bottom } = seen();
      if (frame.current) {
        frame.current.style.transform = `translate(${left * scale}px, ${top * scale}px)`;
        Object.assign(frame.current.style, {
          width: `${(right - left) * scale}px`,
          height: `${(bottom - top) * scale}px`,
        });
      }
    };
    follow();
    return onMove(follow);
  });

  return (
    <button
      type="button"
      tabIndex={-1}
      className={css.minimap}
      aria-label={pictures.graph.minimap}
      style={{ width, height }}
      onClick={(event) => {
        const { left, top } = event.currentTarget.getBoundingClientRect();
        camera.center((event.clientX - left) / scale, (event.clientY - top) / scale);
      }}
    >
      <canvas ref={canvas} style={{ width, height }} aria-hidden="true" />
      <span ref={frame} className={css.sight} />
    </button>
  );
}
