import { type PointerEvent, useEffect, useRef, useState } from "react";
import { pictures } from "../messages/pictures";
import { clockTime, preciseTime, zoneName } from "../format/format";
import { useZone } from "../ui/Time";
import { percent, type Scale, type Span, ticks, timeAt } from "./axis";
import css from "./Timeline.module.css";

const APART = 96;
const DRAG = 4;

/** The room that the label of a time takes, in pixels. */
const LABEL = 64;

/** Whether a label at a position ends before the axis does, because one that is cut names another time. */
export function fits(position: number, width: number): boolean {
  return (position / 100) * width + LABEL <= width;
}

/** The axis, in the chosen time zone. Dragging over it zooms in. */
export function Axis({ span, show }: { span: Scale; show: (span: Span) => void }) {
  const zone = useZone();
  const strip = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(800);
  const [brush, setBrush] = useState<{ from: number; to: number } | null>(null);
  useEffect(() => {
    const element = strip.current;
    if (!element) return;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const along = (event: PointerEvent): number =>
    Math.max(0, Math.min(width, event.clientX - (strip.current?.getBoundingClientRect().left ?? 0)));
  const timeOf = (x: number): number => timeAt((x / width) * 100, span);
  const { at, step } = ticks(span, width, APART);
  return (
    <div
      ref={strip}
      role="columnheader"
      aria-label={pictures.timeline.times(zoneName(zone))}
      className={css.axis}
      data-zone={zone}
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        setBrush({ from: along(event), to: along(event) });
      }}
      onPointerMove={(event) => brush && setBrush({ ...brush, to: along(event) })}
      onPointerUp={() => {
        if (brush && Math.abs(brush.to - brush.from) > DRAG)
          show({ from: timeOf(Math.min(brush.from, brush.to)), to: timeOf(Math.max(brush.from, brush.to)) });
        setBrush(null);
      }}
      onPointerCancel={() => setBrush(null)}
    >
      {at
        .filter((time) => fits(percent(time, span), width))
        .map((time) => (
          <time
            key={time}
            className={css.tick}
            dateTime={new Date(time).toISOString()}
            style={{ left: `${percent(time, span)}%` }}
          >
            {step < 1_000 ? preciseTime(time, zone).slice(0, -2) : clockTime(time, zone)}
          </time>
        ))}
      {brush && (
        <span
          className={css.brush}
          style={{ left: Math.min(brush.from, brush.to), width: Math.abs(brush.to - brush.from) }}
        />
      )}
    </div>
  );
}
