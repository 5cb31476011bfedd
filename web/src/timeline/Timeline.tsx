import { getRouteApi } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type CSSProperties, type KeyboardEvent, useEffect, useMemo, useRef, useState } from "react";
import { shapeOf } from "../topology/shape";
import { useBlocks } from "../topology/useBlocks";
import { noSteps } from "../status/runWords";
import type { RunHeader } from "../api/model";
import { m } from "../messages";
import { pictures } from "../messages/pictures";
import { useHeader, useOrder, useRunStore } from "../runstate/context";
import type { RunStore } from "../runstate/store";
import { TIMELINE_ORDERS, type TimelineOrder } from "../address/views";
import { Button } from "../ui/Button";
import { useKeys } from "../ui/keys";
import { ended } from "../status/look";
import { useNarrow } from "../ui/narrow";
import { Notice } from "../ui/Page";
import { useTick } from "../ui/Time";
import { duration } from "../format/format";
import { useMedians } from "../step/medians";
import { Axis } from "./Axis";
import {
  breaksOf,
  percent,
  scaleOf,
  type Span,
  spanOf,
  spanText,
  waitingSpan,
  wholeSpan,
  within,
  zoomedSpan,
} from "./axis";
import {
  awaitedPerson,
  beganAt,
  criticalPath,
  endedAt,
  goesOn,
  pathLength,
  pauseBands,
  readyAt,
  worked,
  workingSpans,
  worksNow,
} from "./segments";
import { Legend } from "./Legend";
import frame from "../styles/Frame.module.css";
import css from "./Timeline.module.css";
import { TimelineRow } from "./TimelineRow";
import { usePauses } from "./usePauses";

const route = getRouteApi("/runs/$runId");
const ROW = 28;
const MOVE = 0.2;
const ZOOM = 0.7;
interface TimelineProps {
  runId: string;
  chosen: string | null;
  choose: (stepId: string) => void;
}

/** The waiting and running times of each step. The address holds the visible part and the order. */
export function Timeline({ runId, chosen, choose }: TimelineProps) {
  const store = useRunStore();
  const header = useHeader();
  const order = useOrder();
  const { order: by = "start", critical, span: asked } = route.useSearch();
  const navigate = route.useNavigate();
  useTick(1_000, header !== null && !ended(header));
  const pauses = usePauses(runId);
  const medians = useMedians(order.length > 0 ? { runId } : null);
  const blocks = useBlocks();
  const [sorting, setSorting] = useState(0);
  // Sorted when it opens and on request, so that rows do not move under the pointer.
  // oxlint-disable-next-line react/exhaustive-deps
  const all = useMemo(() => sorted(store, order, by), [store, order, by, sorting]);
  const now = store.now();
  // The path changes with the steps, and the header changes with every step.
  const path = useMemo(
    () => (critical ? criticalPath(order, (id) => store.step(id), store.now(), failedStep(header)) : null),
    // oxlint-disable-next-line react/exhaustive-deps
    [store, order, critical, header],
  );
  const rows = useMemo(() => (critical === "only" ? all.filter((id) => path?.has(id)) : all), [all, critical, path]);

  const narrow = useNarrow();
  const pane = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => pane.current,
    estimateSize: () => ROW,
    overscan: 8,
  });

  const startedAt = header?.startedAt ?? null;
  const [shorten, setShorten] = useState(true);
  const bands = pauseBands(pauses, header?.pause?.since ?? null, now);
  const awaits = header?.substatus === "AWAITING_OPERATOR";
  // Asked once for each change of a step, because the header changes with every step.
  const works = useMemo(
    () => worksNow(order.flatMap((id) => store.step(id) ?? [])),
    // oxlint-disable-next-line react/exhaustive-deps
    [store, order, header],
  );
  // The wait that goes on ends now. The other waits change only when a step does.
  const waitsUpTo = header !== null && !ended(header) && !works ? now : null;
  const waits = useMemo(() => {
    const steps = order.flatMap((id) => store.step(id) ?? []);
    const working = workingSpans(steps, store.now());
    if (waitsUpTo !== null && working.length > 0) working.push({ from: waitsUpTo, to: waitsUpTo });
    return breaksOf(working, ({ from, to }) =>
      awaitedPerson(steps, from, to, awaits)
        ? "person"
        : bands.some((band) => band.from < to && (band.to ?? to) > from)
          ? "pause"
          : "idle",
    );
    // oxlint-disable-next-line react/exhaustive-deps
  }, [store, order, header, pauses, waitsUpTo]);
  const cut = shorten ? waits.reduce((sum, { from, to }) => sum + to - from, 0) : 0;
  const waiting = shorten && waitsUpTo !== null && waits.at(-1)?.to === waitsUpTo;
  const whole = useSteady(
    waiting
      ? waitingSpan(startedAt ?? now, now, cut)
      : wholeSpan(startedAt ?? now, header && ended(header) ? lastEnd(store, order, header.completedAt) : null, now),
  );
  const span = useSteady(within(spanOf(asked ?? "", whole.from) ?? whole, whole));
  // The waits are found again with every change of a step, and rows are drawn again only when the waits differ.
  const waited = waits.map(({ from, to, why }) => `${from} ${to} ${why}`).join();
  // oxlint-disable-next-line react/exhaustive-deps
  const scale = useMemo(() => scaleOf(span, shorten ? waits : []), [span, shorten, waited]);
  const along = path ? pathLength(path, order, (id) => store.step(id), now) : null;
  const firstOnPath = path ? rows.findIndex((id) => path.has(id)) : -1;
  useEffect(() => {
    if (critical !== undefined && firstOnPath > 0) virtual.scrollToIndex(firstOnPath, { align: "start" });
    // Once for each time that the path is asked for: rows must not move while they are read.
    // oxlint-disable-next-line react/exhaustive-deps
  }, [critical, firstOnPath < 0]);
  const failedRow = rows.indexOf(chosen ?? failedStep(header) ?? "");
  useEffect(() => {
    // Rows stay whole at the top, and nothing moves when the failed one is in sight.
    const seen = Math.floor((virtual.scrollRect?.height ?? 0) / ROW) - 1;
    if (critical === undefined && failedRow >= seen)
      virtual.scrollToIndex(Math.max(0, failedRow - Math.floor(seen / 2)), { align: "start" });
    // Once, when the steps are known: rows must not move while they are read.
    // oxlint-disable-next-line react/exhaustive-deps
  }, [failedRow < 0]);
  const show = (next: Span | null): void =>
    void navigate({
      search: (old) => ({ ...old, span: next === null ? undefined : spanText(within(next, whole), whole.from) }),
      replace: true,
    });
  const showWhole = (): void => show(null);
  const length = span.to - span.from;
  const zoom = (factor: number): void =>
    show(zoomedSpan(span, factor, now < span.to && now > span.from ? now : (span.from + span.to) / 2, whole));
  const setCritical = (): void =>
    void navigate({ search: (old) => ({ ...old, critical: critical ? undefined : "yes" }), replace: true });
  useKeys({
    "+": { does: pictures.graph.zoomIn, run: () => zoom(ZOOM), repeats: true },
    "-": { does: pictures.graph.zoomOut, run: () => zoom(1 / ZOOM), repeats: true },
    "0": { does: pictures.timeline.whole, run: showWhole },
    "=": { does: pictures.mosaic.sort, run: () => setSorting(sorting + 1) },
    x: { does: pictures.timeline.critical, run: setCritical },
  });
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.metaKey || event.ctrlKey || event.altKey || asked === undefined) return;
    const by = event.key === "ArrowRight" ? MOVE : event.key === "ArrowLeft" ? -MOVE : 0;
    if (by === 0) return;
    event.preventDefault();
    show({ from: span.from + by * length, to: span.to + by * length });
  };

  if (!header) return null;
  if (startedAt === null || order.length === 0) return <Notice title={noSteps(header)} />;
  const place = (from: number, to: number): CSSProperties => ({
    left: `${percent(from, scale)}%`,
    width: `${percent(to, scale) - percent(from, scale)}%`,
  });
  return (
    <section className={`${frame.frame} ${css.timeline}`} aria-label={m.run.tabs.timeline}>
      <div className={frame.tools}>
        <label className={css.order}>
          {pictures.timeline.order}{" "}
          <select
            value={by}
            onChange={(event) =>
              void navigate({
                search: (old) => ({ ...old, order: TIMELINE_ORDERS.find((name) => name === event.target.value) }),
                replace: true,
              })
            }
          >
            {TIMELINE_ORDERS.map((name) => (
              <option key={name} value={name}>
                {pictures.timeline.orders[name]}
              </option>
            ))}
          </select>
        </label>
        <Legend
          now={!ended(header)}
          tries={order.some((id) => store.step(id)?.attempts.some(({ lastTryMs }) => lastTryMs !== null))}
          paused={bands.map(({ from, to }) => (to ?? now) - from)}
          breaks={scale.breaks ?? []}
        />
        <span className={frame.push}>
          {along && <span className={css.path}>{pictures.timeline.pathLength(duration(along.ms), along.share)}</span>}
          {critical !== undefined && (
            <Button
              kind="quiet"
              pressed={critical === "only"}
              onClick={() =>
                void navigate({
                  search: (old) => ({ ...old, critical: critical === "only" ? "yes" : "only" }),
                  replace: true,
                })
              }
            >
              {pictures.timeline.onlyPath}
            </Button>
          )}
          <Button kind="quiet" pressed={critical !== undefined} onClick={setCritical}>
            {pictures.timeline.critical} <kbd>x</kbd>
          </Button>
          {waits.length > 0 && (
            <Button kind="quiet" pressed={shorten} onClick={() => setShorten(!shorten)}>
              {pictures.timeline.shorten}
            </Button>
          )}
          <Button kind="quiet" label={pictures.graph.zoomOut} onClick={() => zoom(1 / ZOOM)}>
            −
          </Button>
          <Button kind="quiet" label={pictures.graph.zoomIn} onClick={() => zoom(ZOOM)}>
            +
          </Button>
          <Button kind="quiet" onClick={showWhole}>
            {pictures.timeline.whole} <kbd>0</kbd>
          </Button>
        </span>
      </div>
      <div
        ref={pane}
        className={css.pane}
        role="table"
        aria-label={pictures.timeline.summary(rows.length)}
        aria-rowcount={rows.length + 1}
        tabIndex={0}
        onKeyDown={onKeyDown}
      >
        <div role="rowgroup" className={css.head}>
          <div role="row" aria-rowindex={1}>
            <span role="columnheader" className={css.corner}>
              {pictures.timeline.step}
            </span>
            <Axis span={scale} show={show} />
          </div>
        </div>
        <div role="rowgroup" className={css.body} style={{ height: virtual.getTotalSize() }}>
          <div className={css.under} aria-hidden="true">
            {bands.map(({ from, to }) => (
              <span key={from} className={css.band} style={place(from, to ?? now)} title={m.status.paused} />
            ))}
            {(scale.breaks ?? []).map((one) => (
              <span key={one.from} className={css.break} data-why={one.why} style={place(one.from, one.to)}>
                {duration(one.to - one.from)}
              </span>
            ))}
          </div>
          <div className={css.over} aria-hidden="true">
            {!ended(header) && now >= span.from && now <= span.to && (
              <span
                className={css.now}
                data-frozen={store.frozen() || undefined}
                style={{ left: `${percent(now, scale)}%` }}
              />
            )}
          </div>
          {virtual.getVirtualItems().map((item) => {
            const id = rows[item.index];
            const step = id === undefined ? undefined : store.step(id);
            if (id === undefined || !step) return null;
            const ready = readyAt(step, (other) => store.step(other), startedAt);
            return (
              <TimelineRow
                key={id}
                id={id}
                index={item.index}
                top={item.start}
                span={scale}
                now={goesOn(step, ready, awaits) ? now : 0}
                awaits={awaits}
                ready={ready}
                blocks={blocks(id)}
                critical={path?.has(id) ?? false}
                dimmed={path !== null && !path.has(id)}
                median={medians?.get(id)}
                chosen={id === chosen}
                narrow={narrow}
                choose={choose}
              />
            );
          })}
        </div>
      </div>
    </section>
  );
}

/** The step at which a run failed, or whose failure it waits on; null when nothing failed, or somebody cancelled it. */
function failedStep(header: RunHeader | null): string | null {
  return header === null || header.cancellation !== null ? null : (header.rootCause?.stepId ?? null);
}

/** Returns the former object while the content is the same. */
function useSteady({ from, to }: Span): Span {
  return useMemo(() => ({ from, to }), [from, to]);
}

function lastEnd(store: RunStore, order: readonly string[], completedAt: number | null): number {
  return order.reduce((latest, id) => {
    const step = store.step(id);
    return Math.max(latest, (step && endedAt(step)) ?? latest);
  }, completedAt ?? 0);
}

function sorted(store: RunStore, order: readonly string[], by: TimelineOrder): readonly string[] {
  if (by === "plan") {
    const { ids, layers } = shapeOf(order.flatMap((id) => store.step(id) ?? []));
    return layers.flat().map((i) => ids[i] ?? "");
  }
  const now = store.now();
  const keyed = order.map((id, i) => {
    const step = store.step(id);
    const began = step ? beganAt(step) : null;
    return { id, i, key: by === "longest" ? -(step ? worked(step, now) : 0) : (began ?? Number.POSITIVE_INFINITY) };
  });
  return keyed.toSorted((a, b) => (a.key === b.key ? a.i - b.i : a.key - b.key)).map(({ id }) => id);
}
