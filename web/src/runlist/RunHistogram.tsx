import { memo, type PointerEvent, useEffect, useMemo, useState } from "react";
import { RunHistogramDocument, type RunFilter, type RunHistogramQuery } from "../api/gen/graphql";
import { useQuery } from "../api/useQuery";
import { whileSeen } from "../api/whileSeen";
import { m } from "../messages";
import { BUCKETS, brushed, type Span, spanOf } from "./histogram";
import { type RunQuery, writeMoment } from "./query";
import { clockTime, DAY_MS, dateMinute, dateTime, zoneOffset } from "../format/format";
import { useZone } from "../ui/Time";
import css from "./RunHistogram.module.css";

const EVERY_MS = 60_000;
const HEIGHT = 40;

/** The position on the bars, as a fraction of their width. */
function at(event: PointerEvent<SVGSVGElement>): number {
  const { left, width } = event.currentTarget.getBoundingClientRect();
  return (event.clientX - left) / width;
}

type Bars = RunHistogramQuery["runHistogram"];

/** The bars with the span that they cover; all bars are as wide as the first. */
function toBars(bars: Bars): { bars: Bars; span: Span } | null {
  const [first, second] = bars;
  if (!first || !second) return null;
  const from = Date.parse(first.from);
  return { bars, span: { from, to: from + (Date.parse(second.from) - from) * bars.length } };
}

interface RunHistogramProps {
  query: RunQuery;
  filter: RunFilter;
  change: (query: RunQuery) => void;
}

/** The number of runs over time, with the failed ones on top. Dragging over it narrows the list to that time. */
export const RunHistogram = memo(function RunHistogram({ query, filter, change }: RunHistogramProps) {
  const zone = useZone();
  const [drag, setDrag] = useState<{ a: number; b: number } | null>(null);
  const [minute, setMinute] = useState(0);
  useEffect(() => whileSeen(EVERY_MS, () => setMinute((n) => n + 1)), []);
  const key = JSON.stringify([query, zone, { ...filter, createdFrom: null, createdTo: null }]);
  const variables = useMemo(() => {
    const [wanted, asZone, within] = JSON.parse(key) as [RunQuery, typeof zone, RunFilter];
    const span = spanOf(wanted, Date.now(), asZone);
    return {
      filter: within,
      from: new Date(span.from).toISOString(),
      to: new Date(span.to).toISOString(),
      buckets: BUCKETS,
    };
    // Each minute the span ends later.
    // oxlint-disable-next-line react/exhaustive-deps
  }, [key, minute]);
  // An error is shown by the list below.
  const { last } = useQuery(RunHistogramDocument, variables, ({ runHistogram }) => toBars(runHistogram));
  const held = last ?? null;
  const most = Math.max(1, ...(held?.bars.map((bar) => bar.total) ?? []));
  const narrow = (): void => {
    if (!drag || !held) return;
    const { from, to } = brushed(held.span, drag.a, drag.b);
    setDrag(null);
    change({ ...query, from: writeMoment(from), to: writeMoment(to + 59_999) });
  };
  const total = held?.bars.reduce((sum, bar) => sum + bar.total, 0) ?? 0;
  const failed = held?.bars.reduce((sum, bar) => sum + bar.failed, 0) ?? 0;
  // The two ends of a whole day have the same clock time, so they need the date.
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
            <span>
              {long ? dateMinute(held.span.to, zone) : clockTime(held.span.to, zone)} {zoneOffset(zone, held.span.to)}
            </span>
          </>
        )}
      </figcaption>
    </figure>
  );
});
