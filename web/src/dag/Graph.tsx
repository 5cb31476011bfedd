import { type KeyboardEvent, memo, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import { useRunStore, useStep } from "../runs/context";
import type { RunStore } from "../runs/store";
import { attemptName } from "../ui/format";
import { m } from "../messages";
import { stepLook } from "../ui/look";
import { Button } from "../ui/Button";
import css from "./Graph.module.css";
import { type Edge, type Layout, layout, NODE, type Placed } from "./layout";

const MARGIN = 16;
const TILE = 256;
const NODE_ID = "node-";
const WHOLE = 60;
const MANY_EDGES = 200;
const ZOOMS = { min: 0.1, max: 1.5, labels: 0.55, step: 1.25 };

interface GraphProps {
  chosen: string | null;
  choose: (stepId: string) => void;
  ids: readonly string[];
}

/** The steps as a picture. Only statuses change while it is shown: a plan, and so its drawing, never does. */
export function Graph({ chosen, choose, ids }: GraphProps) {
  const store = useRunStore();
  const drawing = useMemo(
    () => layout(ids.flatMap((id) => store.step(id) ?? []).map((step) => ({ id: step.stepId, dependsOn: step.dependsOn }))),
    [store, ids],
  );
  const pane = useRef<HTMLDivElement>(null);
  const [zoom, setZoom] = useState(1);
  const [view, setView] = useState({ left: 0, top: 0, right: TILE * 4, bottom: TILE * 3 });
  const [focus, setFocus] = useState<string | null>(null);

  const look = useCallback(() => {
    const box = pane.current;
    if (!box) return;
    const down = (n: number): number => Math.floor(n / TILE) * TILE - TILE;
    const up = (n: number): number => Math.ceil(n / TILE) * TILE + TILE;
    const next = {
      left: down(box.scrollLeft),
      top: down(box.scrollTop),
      right: up(box.scrollLeft + box.clientWidth),
      bottom: up(box.scrollTop + box.clientHeight),
    };
    setView((held) => (held.left === next.left && held.top === next.top && held.right === next.right && held.bottom === next.bottom ? held : next));
  }, []);

  const fit = useCallback((): number => {
    const box = pane.current;
    if (!box || drawing.width === 0) return 1;
    const ratio = Math.min((box.clientWidth - 2 * MARGIN) / drawing.width, (box.clientHeight - 2 * MARGIN) / drawing.height);
    return Math.max(ZOOMS.min, Math.min(1, ratio));
  }, [drawing]);

  const center = useCallback(
    (stepId: string, scale: number) => {
      const box = pane.current;
      const node = drawing.nodes.get(stepId);
      if (!box || !node) return;
      box.scrollLeft = MARGIN + (node.x + NODE.width / 2) * scale - box.clientWidth / 2;
      box.scrollTop = MARGIN + (node.y + NODE.height / 2) * scale - box.clientHeight / 2;
    },
    [drawing],
  );

  // Opens fitted when that stays readable, else at what needs a person first.
  useLayoutEffect(() => {
    const scale = fit();
    const readable = scale >= ZOOMS.labels || drawing.nodes.size <= WHOLE;
    const first = worstFirst(store, drawing);
    const opening = readable ? Math.max(scale, 0.75) : 0.8;
    setZoom(opening);
    requestAnimationFrame(() => {
      if (first !== null && (!readable || scale < opening)) center(first, opening);
      look();
    });
  }, [store, drawing, fit, center, look]);

  useEffect(() => {
    const box = pane.current;
    if (!box) return;
    const observer = new ResizeObserver(look);
    observer.observe(box);
    return () => observer.disconnect();
  }, [look]);
  useEffect(look, [zoom, look]);

  const move = (to: string | null | undefined): void => {
    if (to === null || to === undefined) return;
    setFocus(to);
    center(to, zoom);
    requestAnimationFrame(() => {
      look();
      requestAnimationFrame(() => document.getElementById(nodeId(to))?.focus({ preventScroll: true }));
    });
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const at = focus ?? tabStop;
    if (at === null || event.metaKey || event.ctrlKey || event.altKey) return;
    const to = neighbour(drawing, store, at, event.key);
    if (to === undefined) return;
    event.preventDefault();
    move(to);
  };

  const tabStop = focus ?? chosen ?? worstFirst(store, drawing);
  const scaled = { left: view.left / zoom, right: view.right / zoom, top: view.top / zoom, bottom: view.bottom / zoom };
  const inView = (x: number, y: number, width: number, height: number): boolean =>
    x <= scaled.right && x + width >= scaled.left && y <= scaled.bottom && y + height >= scaled.top;
  const nodes = [...drawing.nodes.values()].filter((node) => node.id === tabStop || inView(node.x, node.y, NODE.width, NODE.height));
  const edges = drawing.edges.filter((edge) => {
    const first = edge.points[0];
    const last = edge.points.at(-1);
    if (!first || !last) return false;
    const ys = edge.points.map((point) => point.y);
    const top = Math.min(...ys);
    return inView(first.x, top, last.x - first.x, Math.max(...ys) - top);
  });

  return (
    <div className={css.graph}>
      <div className={css.tools}>
        <Button kind="quiet" label="Zoom out" onClick={() => setZoom(Math.max(ZOOMS.min, zoom / ZOOMS.step))}>
          −
        </Button>
        <Button kind="quiet" label="Zoom in" onClick={() => setZoom(Math.min(ZOOMS.max, zoom * ZOOMS.step))}>
          +
        </Button>
        <Button kind="quiet" onClick={() => setZoom(fit())}>
          Fit
        </Button>
        <Button kind="quiet" onClick={() => move(neighbour(drawing, store, tabStop ?? "", "n") ?? worstFirst(store, drawing))}>
          {m.run.nextFailed} <kbd>n</kbd>
        </Button>
      </div>
      {/* The whole picture is one stop for the Tab key; arrow keys walk its edges. */}
      <div
        ref={pane}
        className={css.pane}
        role="group"
        aria-label="Steps as a graph. Arrow keys follow the edges, n goes to the next failed step, Enter opens a step."
        onScroll={look}
        onFocus={(event) => {
          const id = event.target.id;
          if (id.startsWith(NODE_ID)) setFocus(id.slice(NODE_ID.length));
        }}
        onKeyDown={onKeyDown}
      >
        <div className={css.extent} style={{ width: drawing.width * zoom + 2 * MARGIN, height: drawing.height * zoom + 2 * MARGIN }}>
          <div className={css.scaled} style={{ transform: `translate(${MARGIN}px, ${MARGIN}px) scale(${zoom})` }}>
            <svg className={css.edges} data-many={drawing.edges.length > MANY_EDGES || undefined} width={drawing.width} height={drawing.height} aria-hidden="true">
              {edges.map((edge) => (
                <EdgeView key={`${edge.from}>${edge.to}`} edge={edge} />
              ))}
            </svg>
            {nodes.map((node) => (
              <NodeView key={node.id} node={node} chosen={node.id === chosen} tabStop={node.id === tabStop} bare={zoom < ZOOMS.labels} choose={choose} />
            ))}
          </div>
        </div>
      </div>
    </div>
  );
}

function nodeId(stepId: string): string {
  return `${NODE_ID}${stepId}`;
}

/** The step that needs a person most: failed, then waiting for a retry, then running, then the first. */
function worstFirst(store: RunStore, drawing: Layout): string | null {
  let best: string | null = null;
  let rank = Number.POSITIVE_INFINITY;
  for (const id of drawing.nodes.keys()) {
    const step = store.step(id);
    const mine = step?.status === "FAILED" ? 0 : step?.pendingRetry ? 1 : step?.status === "RUNNING" ? 2 : 3;
    if (mine < rank) {
      rank = mine;
      best = id;
    }
  }
  return best;
}

/** Where a key leads from a step: null stays, undefined is not our key. */
function neighbour(drawing: Layout, store: RunStore, from: string, key: string): string | null | undefined {
  const layer = drawing.layers[drawing.nodes.get(from)?.layer ?? -1] ?? [];
  switch (key) {
    case "ArrowRight":
      return drawing.edges.find((edge) => edge.from === from)?.to ?? null;
    case "ArrowLeft":
      return drawing.edges.find((edge) => edge.to === from)?.from ?? null;
    case "ArrowDown":
      return layer[layer.indexOf(from) + 1] ?? null;
    case "ArrowUp":
      return layer[layer.indexOf(from) - 1] ?? null;
    case "n":
    case "N": {
      const ids = [...drawing.nodes.keys()];
      const ring = key === "n" ? ids : ids.toReversed();
      const at = ring.indexOf(from);
      return [...ring.slice(at + 1), ...ring.slice(0, at)].find((id) => store.step(id)?.status === "FAILED") ?? null;
    }
    default:
      return undefined;
  }
}

interface NodeViewProps {
  node: Placed;
  chosen: boolean;
  tabStop: boolean;
  bare: boolean;
  choose: (stepId: string) => void;
}

const NodeView = memo(function NodeView({ node, chosen, tabStop, bare, choose }: NodeViewProps) {
  const step = useStep(node.id);
  if (!step) return null;
  const look = stepLook(step);
  const Icon = look.icon;
  const retry = step.logicalAttemptId > 1 ? attemptName(step.logicalAttemptId) : null;
  const blocked = step.wait?.kind === "FAILED_STEP";
  const name = [step.name ?? step.stepId, look.word.toLowerCase(), retry, blocked ? "blocked" : null].filter((part) => part !== null).join(", ");
  return (
    <button
      id={nodeId(node.id)}
      type="button"
      className={css.node}
      data-tone={look.tone}
      data-bare={bare || undefined}
      data-blocked={blocked || undefined}
      aria-label={name}
      aria-pressed={chosen}
      title={name}
      tabIndex={tabStop ? 0 : -1}
      style={{ left: node.x, top: node.y, width: NODE.width, height: NODE.height }}
      onClick={() => choose(node.id)}
    >
      <Icon size={bare ? 28 : 16} aria-hidden="true" />
      {!bare && <span className={css.label}>{step.name ?? step.stepId}</span>}
      {!bare && retry && <span className={css.retry}>{retry}</span>}
    </button>
  );
});

const EdgeView = memo(function EdgeView({ edge }: { edge: Edge }) {
  const source = useStep(edge.from);
  const target = useStep(edge.to);
  const kind = source?.status === "FAILED" ? "failed" : target?.wait?.kind === "FAILED_STEP" ? "blocked" : source?.status === "SUCCESS" ? "done" : "open";
  return <path className={css.edge} data-kind={kind} d={path(edge)} />;
});

/** Straight through the layers, S-curves between them. */
function path({ points }: Edge): string {
  return points
    .map((point, i) => {
      const before = points[i - 1];
      if (!before) return `M${point.x} ${point.y}`;
      if (before.y === point.y) return `L${point.x} ${point.y}`;
      const middle = (before.x + point.x) / 2;
      return `C${middle} ${before.y} ${middle} ${point.y} ${point.x} ${point.y}`;
    })
    .join("");
}
