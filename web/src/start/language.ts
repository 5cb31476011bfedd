// Plans as text, in YAML or JSON: their value, where a part of them stands, and what may be written at a place. JSON is
// YAML too, so one parser reads both.
import { type Document, isMap, isPair, isScalar, isSeq, type Node, parseDocument } from "yaml";

/** Offsets in the text; `to` is after the last character. */
export type Range = readonly [from: number, to: number];

export interface TextProblem {
  message: string;
  at: Range;
}

export type PlanText = { value: unknown } | { problem: TextProblem };

const OPTIONS = { merge: false, uniqueKeys: true, prettyErrors: false, maxAliasCount: 100 } as const;

function read(text: string): Document.Parsed {
  return parseDocument(text, OPTIONS);
}

/** The value of a plan's text, or the first place at which it cannot be read. */
export function planOf(text: string): PlanText {
  const document = read(text);
  const [error] = document.errors;
  if (error)
    return { problem: { message: error.message, at: [error.pos[0], Math.max(error.pos[1], error.pos[0] + 1)] } };
  try {
    return { value: document.toJS(OPTIONS) as unknown };
  } catch (cause) {
    // An alias that stands for too much.
    return { problem: { message: cause instanceof Error ? cause.message : String(cause), at: [0, 1] } };
  }
}

/**
 * The range of the member or item that a path such as `steps[4].dependsOn` names, cut at the end of its first line. For
 * a path that is missing it is the nearest parent that exists. Null when the text has no part of the path.
 */
export function locate(text: string, path: string): Range | null {
  let node: unknown = read(text).contents;
  let found: Range | null = null;
  for (const name of path.split(/[.[\]]+/).filter((part) => part !== "")) {
    const member = memberOf(node, name);
    if (!member) break;
    found = member.at;
    node = member.value;
  }
  if (!found) return null;
  const end = text.indexOf("\n", found[0]);
  return [found[0], end < 0 ? found[1] : Math.min(found[1], end)];
}

function memberOf(parent: unknown, name: string): { at: Range; value: unknown } | null {
  if (isSeq(parent)) {
    const item = parent.items[Number(name)] as Node | undefined;
    return item?.range ? { at: [item.range[0], item.range[1]], value: item } : null;
  }
  if (!isMap(parent)) return null;
  const pair = parent.items.find(({ key }) => isScalar(key) && String(key.value) === name);
  if (!pair || !isPair(pair)) return null;
  const key = pair.key as Node;
  const value = pair.value as Node | null;
  if (!key.range) return null;
  return { at: [key.range[0], value?.range?.[1] ?? key.range[1]], value };
}

/** The line of an offset, from 1. */
export function lineOf(text: string, offset: number): number {
  return text.slice(0, offset).split("\n").length;
}

/** Whether the text is a plan by itself: a document with steps. */
export function isWholePlan(text: string): boolean {
  const plan = planOf(text);
  return "value" in plan && typeof plan.value === "object" && plan.value !== null && "steps" in plan.value;
}
