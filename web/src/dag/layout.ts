// A layered drawing of the steps: longest-path layers, dummy nodes on long edges, median sweeps
// against crossings, and heights by isotonic regression. Pure; a plan never changes, so neither
// does its drawing.

export interface LayoutNode {
  id: string;
  dependsOn: readonly string[];
}

export interface Placed {
  id: string;
  layer: number;
  x: number;
  y: number;
}

export interface Edge {
  from: string;
  to: string;
  /** The way of the edge through the layers, from the source's right side to the target's left. */
  points: readonly { x: number; y: number }[];
}

export interface Layout {
  nodes: ReadonlyMap<string, Placed>;
  /** Ids by layer, top to bottom. */
  layers: readonly (readonly string[])[];
  edges: readonly Edge[];
  width: number;
  height: number;
}

export const NODE = { width: 196, height: 34, gapX: 56, gapY: 12 };
const SWEEPS = 12;
const SETTLE = 8;
const PITCH = NODE.height + NODE.gapY;

interface Vertex {
  id: string | null;
  layer: number;
  order: number;
  y: number;
  before: Vertex[];
  after: Vertex[];
}

export function layout(steps: readonly LayoutNode[]): Layout {
  const vertices = new Map<string, Vertex>();
  for (const step of steps) vertices.set(step.id, { id: step.id, layer: 0, order: 0, y: 0, before: [], after: [] });
  assignLayers(steps, vertices);
  const chains = connect(steps, vertices);
  const layers = arrange([...vertices.values()], chains);
  for (let i = 0; i < SWEEPS; i++) sweep(layers, i % 2 === 0);
  setHeights(layers);
  return draw(layers, chains, vertices);
}

function assignLayers(steps: readonly LayoutNode[], vertices: Map<string, Vertex>): void {
  const waiting = new Map<string, number>();
  const after = new Map<string, string[]>();
  for (const step of steps) {
    const known = step.dependsOn.filter((id) => vertices.has(id));
    waiting.set(step.id, known.length);
    for (const id of known) after.set(id, [...(after.get(id) ?? []), step.id]);
  }
  const ready = steps.filter((step) => waiting.get(step.id) === 0).map((step) => step.id);
  for (let i = 0; i < ready.length; i++) {
    const id = ready[i];
    if (id === undefined) break;
    const layer = vertices.get(id)?.layer ?? 0;
    for (const next of after.get(id) ?? []) {
      const vertex = vertices.get(next);
      if (vertex) vertex.layer = Math.max(vertex.layer, layer + 1);
      const left = (waiting.get(next) ?? 0) - 1;
      waiting.set(next, left);
      if (left === 0) ready.push(next);
    }
  }
}

/** Joins source and target through one dummy vertex in each layer between them. */
function connect(steps: readonly LayoutNode[], vertices: Map<string, Vertex>): Vertex[][] {
  const chains: Vertex[][] = [];
  for (const step of steps) {
    const target = vertices.get(step.id);
    if (!target) continue;
    for (const id of new Set(step.dependsOn)) {
      const source = vertices.get(id);
      if (!source || source === target) continue;
      const chain = [source];
      for (let layer = source.layer + 1; layer < target.layer; layer++) {
        chain.push({ id: null, layer, order: 0, y: 0, before: [], after: [] });
      }
      chain.push(target);
      for (let i = 1; i < chain.length; i++) {
        const a = chain[i - 1];
        const b = chain[i];
        if (!a || !b) continue;
        a.after.push(b);
        b.before.push(a);
      }
      chains.push(chain);
    }
  }
  return chains;
}

function arrange(real: Vertex[], chains: Vertex[][]): Vertex[][] {
  const layers: Vertex[][] = [];
  const place = (vertex: Vertex): void => {
    const layer = (layers[vertex.layer] ??= []);
    vertex.order = layer.length;
    layer.push(vertex);
  };
  real.forEach(place);
  for (const chain of chains) chain.slice(1, -1).forEach(place);
  for (let i = 0; i < layers.length; i++) layers[i] ??= [];
  return layers;
}

function sweep(layers: Vertex[][], down: boolean): void {
  const order = down ? layers : layers.toReversed();
  for (const layer of order) {
    const keys = new Map(layer.map((vertex) => [vertex, median(down ? vertex.before : vertex.after) ?? vertex.order]));
    layer.sort((a, b) => (keys.get(a) ?? 0) - (keys.get(b) ?? 0) || a.order - b.order);
    layer.forEach((vertex, i) => {
      vertex.order = i;
    });
  }
}

function median(neighbours: readonly Vertex[]): number | null {
  if (neighbours.length === 0) return null;
  const orders = neighbours.map((vertex) => vertex.order).toSorted((a, b) => a - b);
  const middle = orders.length >> 1;
  const high = orders[middle] ?? 0;
  return orders.length % 2 === 1 ? high : ((orders[middle - 1] ?? 0) + high) / 2;
}

function setHeights(layers: Vertex[][]): void {
  for (const layer of layers) layer.forEach((vertex, i) => (vertex.y = (i - layer.length / 2) * PITCH));
  for (let i = 0; i < SETTLE; i++) {
    for (const layer of i % 2 === 0 ? layers : layers.toReversed()) {
      const wanted = layer.map((vertex) => {
        const near = [...vertex.before, ...vertex.after];
        return near.length === 0 ? vertex.y : near.reduce((sum, other) => sum + other.y, 0) / near.length;
      });
      separate(wanted, PITCH).forEach((y, at) => {
        const vertex = layer[at];
        if (vertex) vertex.y = y;
      });
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
  return blocks.flatMap((block) => Array.from({ length: block.size }, () => block.mean)).map((mean, i) => mean + i * gap);
}

function draw(layers: Vertex[][], chains: Vertex[][], vertices: Map<string, Vertex>): Layout {
  const all = layers.flat();
  const top = Math.min(0, ...all.map((vertex) => vertex.y));
  const x = (layer: number): number => layer * (NODE.width + NODE.gapX);
  const nodes = new Map<string, Placed>();
  for (const [id, vertex] of vertices) nodes.set(id, { id, layer: vertex.layer, x: x(vertex.layer), y: vertex.y - top });
  const edges = chains.map((chain): Edge => {
    const points = chain.flatMap((vertex, i) => {
      const y = vertex.y - top + NODE.height / 2;
      const left = { x: x(vertex.layer), y };
      const right = { x: x(vertex.layer) + NODE.width, y };
      if (i === 0) return [right];
      return i === chain.length - 1 ? [left] : [left, right];
    });
    return { from: chain[0]?.id ?? "", to: chain.at(-1)?.id ?? "", points };
  });
  return {
    nodes,
    layers: layers.map((layer) => layer.flatMap((vertex) => (vertex.id === null ? [] : [vertex.id]))),
    edges,
    width: layers.length === 0 ? 0 : x(layers.length - 1) + NODE.width,
    height: Math.max(0, ...all.map((vertex) => vertex.y - top + NODE.height)),
  };
}
