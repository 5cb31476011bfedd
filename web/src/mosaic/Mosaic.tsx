import {
  type MouseEvent,
  useCallback,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
  useSyncExternalStore,
} from "react";
import { Blocked, waitingSteps } from "../topology/blocked";
import { holdOf } from "../topology/hold";
import type { Shape } from "../topology/shape";
import { pictures } from "../messages/pictures";
import { useRunStore } from "../runstate/context";
import { nextFailed, worstStep } from "../runstate/failed";
import { STEP_GROUPS, stepGroup } from "../status/stepGroup";
import { Button } from "../ui/Button";
import { useKeys } from "../ui/keys";
import { usePalette } from "../ui/palette";
import { Cell } from "./Cell";
import { glyphOf } from "../status/glyphs";
import { Legend } from "./Legend";
import frame from "../styles/Frame.module.css";
import css from "./Mosaic.module.css";
import { Painter } from "./painter";
import { cellAt, cellBeside, type Mosaic as Places, placeCells, worstFirst } from "./place";

const ARROWS: Record<string, readonly [-1 | 0 | 1, -1 | 0 | 1]> = {
  ArrowRight: [1, 0],
  ArrowLeft: [-1, 0],
  ArrowDown: [0, 1],
  ArrowUp: [0, -1],
};

interface MosaicProps {
  shape: Shape;
  chosen: string | null;
  choose: (stepId: string) => void;
  /** Shows the graph around a step. */
  focusOn: (stepId: string) => void;
  showWhole: () => void;
  /** Opens the groups as a graph; without it the steps have none. */
  showGroups?: () => void;
}

/**
 * Every step of a large run on one screen, as cells in the layers of the graph. Cells change in place and never move.
 */
export function Mosaic({ shape, chosen, choose, focusOn, showWhole, showGroups }: MosaicProps) {
  const store = useRunStore();
  const tally = useSyncExternalStore(store.subscribe, store.tally);
  const [sorting, setSorting] = useState(0);
  const layers = useMemo(
    () =>
      worstFirst(shape.layers, (i) => {
        const step = store.step(shape.ids[i] ?? "");
        return step ? stepGroup(step) : "pending";
      }),
    // Sorted when it opens and on request, not when steps change.
    // oxlint-disable-next-line react/exhaustive-deps
    [shape, store, sorting],
  );
  const pane = useRef<HTMLDivElement>(null);
  const box = useSize(pane);
  const places = useMemo(
    () => (box ? placeCells(layers, shape.ids.length, box.width, box.height) : null),
    [layers, shape, box],
  );
  const blocked = useMemo(() => new Blocked(shape, waitingSteps(store)), [shape, store]);
  const canvas = usePainting(shape, places, blocked);

  const [cursor, setCursor] = useState<string | null>(null);
  const [hovered, setHovered] = useState<number | null>(null);
  const at =
    shape.index.get(cursor ?? "") ?? shape.index.get(chosen ?? "") ?? shape.index.get(worstStep(store) ?? "") ?? 0;
  const move = (to: string | null | undefined): void => {
    if (to === null || to === undefined) return;
    setCursor(to);
    requestAnimationFrame(() => pane.current?.querySelector<HTMLElement>("button")?.focus());
  };
  const failed = (way: 1 | -1): void => move(nextFailed(store, shape.ids[at] ?? null, way));
  const sort = (): void => setSorting(sorting + 1);
  useKeys({
    n: { does: pictures.graph.nextFailed, run: () => failed(1), repeats: true },
    N: { does: pictures.graph.previousFailed, run: () => failed(-1), repeats: true },
    "=": { does: pictures.mosaic.sort, run: sort },
  });

  const under = (event: MouseEvent): number | null => {
    if (!places || !canvas.current) return null;
    const { left, top } = canvas.current.getBoundingClientRect();
    return cellAt(places, event.clientX - left, event.clientY - top);
  };
  const id = shape.ids[at];
  return (
    <section className={`${frame.frame} ${css.mosaic}`} aria-label={pictures.mosaic.title}>
      <div className={frame.tools}>
        <Legend tally={tally} />
        <span className={frame.push}>
          <Button kind="quiet" onClick={() => failed(1)}>
            {pictures.graph.nextFailed} <kbd>n</kbd>
          </Button>
          <Button kind="quiet" onClick={sort}>
            {pictures.mosaic.sort} <kbd>=</kbd>
          </Button>
          {showGroups && (
            <Button kind="quiet" onClick={showGroups}>
              {pictures.graph.asGroups}
            </Button>
          )}
          <Button kind="quiet" onClick={showWhole}>
            {pictures.graph.whole}
          </Button>
        </span>
      </div>
      {/* One stop for the Tab key: a button on the cell where the arrow keys are. The table of steps is the equivalent. */}
      <div
        ref={pane}
        className={css.pane}
        role="group"
        aria-label={pictures.mosaic.summary(
          shape.ids.length,
          STEP_GROUPS.map((group) => pictures.mosaic.part(tally[group], group)),
        )}
        data-cells={shape.ids.length}
        onPointerMove={(event) => setHovered(under(event))}
        onPointerLeave={() => setHovered(null)}
        onClick={(event) => {
          const clicked = event.target === canvas.current ? under(event) : null;
          if (clicked !== null) focusOn(shape.ids[clicked] ?? "");
        }}
        onKeyDown={(event) => {
          const arrow = ARROWS[event.key];
          if (!arrow || !places || event.metaKey || event.ctrlKey || event.altKey) return;
          event.preventDefault();
          move(shape.ids[cellBeside(places, at, arrow[0], arrow[1]) ?? -1]);
        }}
      >
        <canvas ref={canvas} className={css.canvas} aria-hidden="true" />
        {places && hovered !== null && hovered !== at && (
          <Cell
            key={`under ${hovered}`}
            step={hovered}
            id={shape.ids[hovered] ?? ""}
            places={places}
            blocked={blocked}
          />
        )}
        {places && id !== undefined && (
          <Cell
            key={id}
            step={at}
            id={id}
            places={places}
            blocked={blocked}
            choose={choose}
            focusOn={focusOn}
            hovered={hovered === at}
          />
        )}
      </div>
    </section>
  );
}

/** The area for cells: the available width, and the height of the style sheet. */
function useSize(pane: React.RefObject<HTMLDivElement | null>): { width: number; height: number } | null {
  const [size, setSize] = useState<{ width: number; height: number } | null>(null);
  useLayoutEffect(() => {
    const element = pane.current;
    if (!element) return;
    const measure = (): void => {
      const style = getComputedStyle(element);
      const width = element.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
      const height = parseFloat(style.maxHeight) - parseFloat(style.paddingTop) - parseFloat(style.paddingBottom);
      setSize((held) => (held?.width === width && held.height === height ? held : { width, height }));
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    addEventListener("resize", measure);
    return () => {
      observer.disconnect();
      removeEventListener("resize", measure);
    };
  }, [pane]);
  return size;
}

/** Draws all cells once they are placed, then the changed ones, once in each animation frame. */
function usePainting(shape: Shape, places: Places | null, blocked: Blocked): React.RefObject<HTMLCanvasElement | null> {
  const store = useRunStore();
  const palette = usePalette();
  const canvas = useRef<HTMLCanvasElement>(null);
  const paint = useCallback(
    (painter: Painter, steps: Iterable<number>) => {
      const { held } = holdOf(store);
      for (const i of steps) {
        const step = store.step(shape.ids[i] ?? "");
        if (step) painter.paint(i, glyphOf(step, blocked.has(i), held.has(step.stepId)));
      }
      if (canvas.current) canvas.current.dataset["painted"] = String(painter.painted);
    },
    [store, shape, blocked],
  );
  useEffect(() => {
    const element = canvas.current;
    if (!element || !places) return;
    const painter = new Painter(element, places, palette, devicePixelRatio);
    blocked.update(shape.ids);
    paint(painter, shape.index.values());
    performance.clearMarks("dvt:mosaic");
    performance.mark("dvt:mosaic");
    const dirty = new Set<number>();
    let frame = 0;
    let held = holdOf(store).held.size;
    const stop = store.subscribeSteps((changed) => {
      for (const id of changed) dirty.add(shape.index.get(id) ?? -1);
      for (const i of blocked.update(changed)) dirty.add(i);
      // A failure holds steps that have not changed themselves.
      const holds = holdOf(store).held.size;
      if (holds !== held) for (const i of shape.index.values()) dirty.add(i);
      held = holds;
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        paint(painter, dirty);
        dirty.clear();
      });
    });
    return () => {
      stop();
      cancelAnimationFrame(frame);
    };
  }, [store, shape, places, palette, blocked, paint]);
  return canvas;
}
