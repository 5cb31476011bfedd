import { memo, type PointerEvent, useEffect, useState } from "react";
import { RunHistogramDocument, type RunFilter, type RunHistogramQuery } from "../api/gen/graphql";
import { request } from "../api/request";
import { whileSeen } from "../api/whileSeen";
import { m } from "../messages";
import { BUCKETS, brushed, type Span, spanOf } from "./histogram";
import { type RunQuery, writeMoment } from "./query";
import { clockTime, DAY_MS, dateMinute, dateTime } from "../format/format";
import { useZone } from "../ui/Time";
import css from "./RunHistogram.module.css";

const EVERY_MS = 60_000;
const HEIGHT = 40;

/** Where on the bars, as a fraction of their width. */
function at(event: PointerEvent<SVGSVGElement>): number {
  const { left, width } = event.currentTarget.getBoundingClientRect();
  return (event.clientX - left) / width;
}

interface RunHistogramProps {
  query: RunQuery;
  filter: RunFilter;
  change: (query: RunQuery) => void;
}

/** How many runs began when, the failed part on top; a drag over it narrows the list to that time. */
export const RunHistogram = memo(function RunHistogram({ query, filter, change }: RunHistogramProps) {
  const zone = useZone();
  const [held, setHeld] = useState<{ bars: RunHistogramQuery["runHistogram"]; span: Span } | null>(null);
  const [drag, setDrag] = useState<{ a: number; b: number } | null>(null);
  const key = JSON.stringify([query, zone, { ...filter, createdFrom: null, createdTo: null }]);
  useEffect(() => {
    const abort = new AbortController();
    // What was made into text a moment ago.
    const [asked, asZone, within] = JSON.parse(key) as [RunQuery, typeof zone, RunFilter];
    const ask = (): Promise<void> => {
      const span = spanOf(asked, Date.now(), asZone);
      return request(
        RunHistogramDocument,
        {
          filter: within,
          from: new Date(span.from).toISOString(),
          to: new Date(span.to).toISOString(),
          buckets: BUCKETS,
        },
        abort.signal,
      )
        .then(({ runHistogram }) => setHeld({ bars: runHistogram, span }))
        .catch(() => {
          if (!abort.signal.aborted) setHeld(null); // The list below says what is wrong.
        });
    };
    const stop = whileSeen(EVERY_MS, ask, 0);
    return () => {
      stop();
      abort.abort();
    };
  }, [key]);
  const most = Math.max(1, ...(held?.bars.map((bar) => bar.total) ?? []));
  const narrow = (): void => {
    if (!drag || !held) return;
    const { from, to } = brushed(held.span, drag.a, drag.b);
    setDrag(null);
    change({ ...query, from: writeMoment(from), to: writeMoment(to + 59_999) });
  };
  const total = held?.bars.reduce((sum, bar) => sum + bar.total, 0) ?? 0;
  const failed = held?.bars.reduce((sum, bar) => sum + bar.failed, 0) ?? 0;
  // Both ends of a whole day are the same hour.
  const long = held !== null && held.span.to - held.span.from >= DAY_MS;
  return (
    <figure className={css.figure}>
      <svg
        className={css.bars}
        viewBox={`0 0 ${BUCKETS} ${HEIGHT}`}
        preserveAspectRatio="none"
        aria-hidden="true"
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId);
          setDrag({ a: at(event), b: at(event) });
        }}
        onPointerMove={(event) => drag && setDrag({ ...drag, b: at(event) })}
        onPointerUp={narrow}
        onPointerCancel={() => setDrag(null)}
      >
        {held?.bars.map((bar, i) => {
          const height = (bar.total / most) * HEIGHT;
          const bad = (bar.failed / most) * HEIGHT;
          return (
            <g key={bar.from}>
              <rect className={css.total} x={i + 0.1} width={0.8} y={HEIGHT - height + bad} height={height - bad} />
              <rect className={css.failed} x={i + 0.1} width={0.8} y={HEIGHT - height} height={bad} />
              <rect className={css.reach} x={i} width={1} y={0} height={HEIGHT}>
                <title>{m.runs.bar(dateTime(Date.parse(bar.from), zone), bar.total, bar.failed)}</title>
              </rect>
            </g>
          );
        })}
        {drag && (
          <rect
            className={css.brush}
            x={Math.min(drag.a, drag.b) * BUCKETS}
            width={Math.abs(drag.b - drag.a) * BUCKETS}
            y={0}
            height={HEIGHT}
          />
        )}
      </svg>
      <figcaption className={css.caption}>
        {held && (
          <>
            <span>{long ? dateMinute(held.span.from, zone) : clockTime(held.span.from, zone)}</span>
            <span>{m.runs.histogram(total, failed)}</span>
            <span>{long ? dateMinute(held.span.to, zone) : clockTime(held.span.to, zone)}</span>
          </>
        )}
      </figcaption>
    </figure>
  );
});
