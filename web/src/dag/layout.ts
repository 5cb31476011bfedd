// A layered drawing of the steps: longest-path layers, dummy vertices on long edges (shared by the edges of one
// source), median sweeps against crossings, and heights by isotonic regression. Pure numbers, so that a worker
// can send it and a browser can keep it; a plan never changes, so neither does its drawing.
import { at, listOf, type Lists, listsOf } from "../topology/shape";

/** Raise it when the same plan is drawn differently, so that cached layouts are not used. */
export const LAYOUT_VERSION = 6;
export const NODE = { width: 176, height: 48, gapX: 36, gapY: 12 };
const SWEEPS = 12;
const SETTLE = 8;
const PITCH = NODE.height + NODE.gapY;

/** The steps by index: their number, the layer of each, and the predecessors of each. */
export interface Wires {
  layer: Int32Array;
  before: Lists;
}

export interface Layout {
  width: number;
  height: number;
  layer: Int32Array;
  /** Left and top of each step. */
  x: Float32Array;
  y: Float32Array;
  /**
   * Edge e goes from step `from[e]` to step `to[e]`, through the layers between them at the heights `bends[bend[e]]` to
   * `bends[bend[e + 1] - 1]`.
   */
  from: Int32Array;
  to: Int32Array;
  bend: Int32Array;
  bends: Float32Array;
}

/** Vertices are the steps, then the dummies. */
interface Drawing {
  layer: Int32Array;
  before: Lists;
  after: Lists;
  /** Vertices of each layer, top to bottom. */
  layers: Int32Array[];
  order: Int32Array;
  y: Float64Array;
}

export function layout(wires: Wires): Layout {
  const edges = routed(wires);
  const drawing = arrange(edges);
  for (let i = 0; i < SWEEPS; i++) sweep(drawing, i % 2 === 0);
  setHeights(drawing);
  return draw(wires, edges, drawing);
}

interface Routed {
  layer: Int32Array;
  from: number[];
  to: number[];
  /** The dummies of edge e are `via[start[e]]` to `via[start[e + 1] - 1]`. */
  start: Int32Array;
  via: number[];
  /** The short links between neighbouring layers. */
  above: number[];
  below: number[];
}

/** Gives each edge one dummy in each layer that it crosses; edges of one source share theirs. */
function routed({ layer, before }: Wires): Routed {
  const count = layer.length;
  const layers = [...layer];
  const from: number[] = [];
  const to: number[] = [];
  for (let i = 0; i < count; i++) {
    for (const source of listOf(before, i)) {
      from.push(source);
      to.push(i);
    }
  }
  const chains = Array.from({ length: count }, (): number[] => []);
  const start = new Int32Array(from.length + 1);
  const via: number[] = [];
  const above: number[] = [];
  const below: number[] = [];
  from.forEach((source, e) => {
    const chain = chains[source] ?? [];
    const target = at(to, e);
    const crossed = Math.max(0, at(layers, target) - at(layers, source) - 1);
    while (chain.length < crossed) {
      above.push(chain.at(-1) ?? source);
      below.push(layers.length);
      chain.push(layers.length);
      layers.push(at(layers, source) + chain.length);
    }
    above.push(crossed === 0 ? source : at(chain, crossed - 1));
    below.push(target);
    for (let i = 0; i < crossed; i++) via.push(at(chain, i));
    start[e + 1] = via.length;
  });
  return { layer: Int32Array.from(layers), from, to, start, via, above, below };
}

function arrange({ layer, above, below }: Routed): Drawing {
  const count = layer.length;
  const members: number[][] = [];
  layer.forEach((l, vertex) => (members[l] ??= []).push(vertex));
  const order = new Int32Array(count);
  const layers = Array.from(members, (list) => Int32Array.from(list ?? []));
  for (const list of layers) list.forEach((vertex, i) => (order[vertex] = i));
  return {
    layer,
    before: listsOf(count, below, above),
    after: listsOf(count, above, below),
    layers,
    order,
    y: new Float64Array(count),
  };
}

function sweep({ before, after, layers, order }: Drawing, down: boolean): void {
  const keys = new Float64Array(order.length);
  for (const layer of down ? layers : layers.toReversed()) {
    for (const vertex of layer)
      keys[vertex] = median(listOf(down ? before : after, vertex), order) ?? at(order, vertex);
    layer.sort((a, b) => at(keys, a) - at(keys, b) || at(order, a) - at(order, b));
    layer.forEach((vertex, i) => (order[vertex] = i));
  }
}

function median(neighbours: Int32Array, order: Int32Array): number | null {
  const { length } = neighbours;
  if (length === 0) return null;
  if (length === 1) return at(order, at(neighbours, 0));
  const orders = Int32Array.from(neighbours, (vertex) => at(order, vertex)).toSorted();
  const middle = length >> 1;
  return length % 2 === 1 ? at(orders, middle) : (at(orders, middle - 1) + at(orders, middle)) / 2;
}

function setHeights({ before, after, layers, y }: Drawing): void {
  for (const layer of layers) layer.forEach((vertex, i) => (y[vertex] = (i - layer.length / 2) * PITCH));
  for (let i = 0; i < SETTLE; i++) {
    for (const layer of i % 2 === 0 ? layers : layers.toReversed()) {
      const wanted = Array.from(layer, (vertex) => {
        const [left, right] = [listOf(before, vertex), listOf(after, vertex)];
        if (left.length + right.length === 0) return at(y, vertex);
        let sum = 0;
        for (const other of left) sum += at(y, other);
        for (const other of right) sum += at(y, other);
        return sum / (left.length + right.length);
      });
      separate(wanted, PITCH).forEach((height, n) => (y[at(layer, n)] = height));
    }
  }
}

/** The heights nearest to `wanted` (least squares) that keep the order and stand `gap` apart. */
export function separate(wanted: readonly number[], gap: number): number[] {
  const blocks: { mean: number; size: number }[] = [];
  wanted.forEach((want, i) => {
    let block = { mean: want - i * gap, size: 1 };
    for (let last = blocks.at(-1); last && last.mean > block.mean; last = blocks.at(-1)) {
      blocks.pop();
      const size = last.size + block.size;
      block = { mean: (last.mean * last.size + block.mean * block.size) / size, size };
    }
    blocks.push(block);
  });
  return blocks
    .flatMap((block) => Array.from({ length: block.size }, () => block.mean))
    .map((mean, i) => mean + i * gap);
}

export function leftOf(layer: number): number {
  return layer * (NODE.width + NODE.gapX);
}

function draw({ layer }: Wires, { from, to, start, via }: Routed, { layers, y }: Drawing): Layout {
  const top = y.reduce((least, height) => Math.min(least, height), 0);
  const bottom = y.reduce((most, height) => Math.max(most, height), top);
  return {
    width: layers.length === 0 ? 0 : leftOf(layers.length - 1) + NODE.width,
    height: layers.length === 0 ? 0 : bottom - top + NODE.height,
    layer,
    x: Float32Array.from(layer, leftOf),
    y: Float32Array.from(layer, (_, i) => at(y, i) - top),
    from: Int32Array.from(from),
    to: Int32Array.from(to),
    bend: start,
    bends: Float32Array.from(via, (vertex) => at(y, vertex) - top + NODE.height / 2),
  };
}
