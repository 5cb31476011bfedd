import {
  type CSSProperties,
  type KeyboardEvent,
  type ReactNode,
  useEffect,
  useMemo,
  useReducer,
  useState,
} from "react";
import { pictures } from "../messages/pictures";
import { useRunState, useRunStore } from "../runstate/context";
import { nextFailed, worstStep } from "../runstate/failed";
import { Button } from "../ui/Button";
import { useKeys } from "../ui/keys";
import { Blocked, waitingSteps } from "../topology/blocked";
import { centred, fitting, legible, type Size, ZOOM } from "./camera";
import { Canvases } from "./Canvases";
import frame from "../styles/Frame.module.css";
import css from "./Graph.module.css";
import type { Bar } from "./fold";
import { GraphNode, nodeId } from "./GraphNode";
import { GroupBar } from "./GroupBar";
import { type Layout, NODE } from "./layout";
import { Minimap } from "./Minimap";
import { Scene } from "./scene";
import { holdOf } from "../topology/hold";
import { at, type Shape } from "../topology/shape";
import { useCamera } from "./useCamera";
import { walk } from "./walk";

/** Up to this number every step is labelled. */
const FEW = 60;
/** The number of steps near the middle that are buttons; the others are drawn on the canvas. */
const NEAR = 100;
const OPENING = 0.8;

export interface GraphProps {
  shape: Shape;
  layout: Layout;
  chosen: string | null;
  choose: (stepId: string) => void;
  /** The whole drawing fits into the pane, whatever its size. */
  fitted?: boolean;
  /** The nodes that stand for a group, and the action of a click on one. */
  bars?: ReadonlyMap<string, Bar>;
  openGroup?: (group: string) => void;
  children?: ReactNode;
}

const NO_BARS: ReadonlyMap<string, Bar> = new Map();

/**
 * The graph of the steps. Only statuses change while it is shown: the plan never changes, so neither does the drawing.
 */
export function Graph({
  shape,
  layout,
  chosen,
  choose,
  fitted = false,
  bars = NO_BARS,
  openGroup,
  children,
}: GraphProps) {
  const store = useRunStore();
  // What a cancellation stopped counts as failed, but nobody looks for it.
  const broken = useRunState(({ header }) => {
    const head = header();
    return head !== null && head.failedSteps > 0 && (head.cancellation === null || head.rootCause !== null);
  });
  // Drawn again when the failure holds more or fewer steps.
  useRunState(({ header }) => header()?.rootCause?.heldSteps ?? 0);
  const hold = holdOf(store);
  const scene = useMemo(() => new Scene(layout), [layout]);
  const blocked = useBlocked(shape);
  const [focus, setFocus] = useState<string | null>(null);
  const known = (id: string | null): string | null => (id !== null && shape.index.has(id) ? id : null);
  const tabStop = known(focus) ?? known(chosen) ?? worstStep(store, shape.ids);
  const stop = shape.index.get(tabStop ?? "") ?? 0;

  const camera = useCamera(layout, (box: Size) => {
    const whole = fitting(layout, box);
    if (fitted || whole >= ZOOM.labels) return { x: 0, y: 0, scale: fitted ? whole : legible(whole) };
    // The graph opens at the step that needs a person most.
    return centred(at(layout.x, stop) + NODE.width / 2, at(layout.y, stop) + NODE.height / 2, OPENING, box);
  });
  const { view, center } = camera;

  const move = (to: string | null): void => {
    const i = shape.index.get(to ?? "");
    if (to === null || i === undefined) return;
    setFocus(to);
    center(at(layout.x, i) + NODE.width / 2, at(layout.y, i) + NODE.height / 2);
    requestAnimationFrame(() => document.getElementById(nodeId(to))?.focus({ preventScroll: true }));
  };
  const failed = (way: 1 | -1): void => {
    move(nextFailed(store, tabStop, way, shape.ids));
  };
  useKeys({
    n: { does: pictures.graph.nextFailed, run: () => failed(1), repeats: true },
    N: { does: pictures.graph.previousFailed, run: () => failed(-1), repeats: true },
    "0": { does: pictures.graph.fit, run: camera.fit },
  });
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.metaKey || event.ctrlKey || event.altKey) return;
    const to = walk(shape, layout, stop, event.key);
    if (to === undefined) return;
    event.preventDefault();
    if (to !== null) move(shape.ids[to] ?? null);
  };

  const labelled = view !== null && (view.scale >= ZOOM.labels || shape.ids.length <= FEW);
  const region = view?.near;
  const near = useMemo(
    () => (region && labelled ? nearest(scene.within(region), layout, region) : []),
    [region, labelled, scene, layout],
  );
  const shown = near.includes(stop) ? near : [...near, stop];
  return (
    <div className={`${frame.frame} ${css.graph}`}>
      <div className={`${frame.tools} ${css.tools}`}>
        {children}
        <Button kind="quiet" label={pictures.graph.zoomOut} onClick={() => camera.zoomBy(1 / ZOOM.step)}>
          −
        </Button>
        <Button kind="quiet" label={pictures.graph.zoomIn} onClick={() => camera.zoomBy(ZOOM.step)}>
          +
        </Button>
        <Button kind="quiet" onClick={camera.fit}>
          {pictures.graph.fit} <kbd>0</kbd>
        </Button>
        {broken && (
          <Button kind="quiet" onClick={() => failed(1)}>
            {pictures.graph.nextFailed} <kbd>n</kbd>
          </Button>
        )}
      </div>
      {/* The whole picture is one stop for the Tab key; arrow keys walk its edges. The table of steps is the equivalent. */}
      <div
        ref={camera.pane}
        className={css.pane}
        style={{ "--picture": `${Math.max(160, layout.height * (fitted ? 1 : 0.85) + 48)}px` } as CSSProperties}
        role="group"
        aria-label={pictures.graph.summary(shape.ids.length)}
        data-nodes={shape.ids.length}
        {...camera.pointer}
        onClick={(event) => {
          if (event.target instanceof Element && event.target.closest("button")) return;
          const point = camera.under(event);
          const hit = point && scene.at(point.x, point.y);
          if (hit !== null) choose(shape.ids[hit] ?? "");
        }}
        onFocus={(event) => {
          const id = event.target.dataset["step"];
          if (id !== undefined) setFocus(id);
        }}
        onKeyDown={onKeyDown}
      >
        <div ref={camera.moved} className={css.moved}>
          <div ref={camera.scaled} className={css.scaled}>
            {view && <Canvases shape={shape} layout={layout} scene={scene} view={view} blocked={blocked} />}
            {shown.map((i) => {
              const id = shape.ids[i] ?? "";
              const bar = bars.get(id);
              if (bar && openGroup)
                return (
                  <GroupBar
                    key={id}
                    bar={bar}
                    x={at(layout.x, i)}
                    y={at(layout.y, i)}
                    tabStop={i === stop}
                    open={openGroup}
                  />
                );
              return (
                <GraphNode
                  key={id}
                  id={id}
                  step={i}
                  x={at(layout.x, i)}
                  y={at(layout.y, i)}
                  blocked={blocked}
                  behind={blocked.has(i)}
                  held={hold.held.has(id)}
                  chosen={id === chosen}
                  tabStop={i === stop}
                  choose={choose}
                />
              );
            })}
          </div>
        </div>
        {shape.ids.length > FEW && <Minimap shape={shape} layout={layout} camera={camera} />}
      </div>
    </div>
  );
}

function nearest(
  steps: readonly number[],
  { x, y }: Layout,
  { left, top, right, bottom }: { left: number; top: number; right: number; bottom: number },
): readonly number[] {
  if (steps.length <= NEAR) return steps;
  const far = (i: number): number => Math.abs(at(x, i) - (left + right) / 2) + Math.abs(at(y, i) - (top + bottom) / 2);
  return steps.toSorted((a, b) => far(a) - far(b)).slice(0, NEAR);
}

/** The steps that wait behind a failed one; renders again when they change. */
function useBlocked(shape: Shape): Blocked {
  const store = useRunStore();
  const blocked = useMemo(() => new Blocked(shape, waitingSteps(store)), [shape, store]);
  const [, redraw] = useReducer((n: number) => n + 1, 0);
  useEffect(
    () =>
      store.subscribeSteps((changed) => {
        if (blocked.update(changed).length > 0) redraw();
      }),
    [store, blocked],
  );
  return blocked;
}
