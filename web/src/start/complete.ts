// What may be written at a place of a plan, by the JSON Schema that the server publishes.
import { isMap, isScalar, isSeq, type Node, parseDocument } from "yaml";
import * as z from "zod/mini";

export interface Completion {
  label: string;
  detail: string;
  /** Written in place of the text from `from` to the caret. */
  insert: string;
}

export interface Completions {
  from: number;
  options: Completion[];
}

/** The parts of a JSON Schema that the plan's schema uses. */
export interface Schema {
  $ref?: string | undefined;
  $defs?: Record<string, Schema> | undefined;
  type?: unknown;
  description?: string | undefined;
  enum?: unknown[] | undefined;
  const?: unknown;
  properties?: Record<string, Schema> | undefined;
  items?: Schema | undefined;
  /** Rules with `if` and `then`. */
  allOf?: Record<string, Schema>[] | undefined;
}
const schemaType: z.ZodMiniType<Schema> = z.lazy(() =>
  z.object({
    $ref: z.optional(z.string()),
    $defs: z.optional(z.record(z.string(), schemaType)),
    type: z.optional(z.unknown()),
    description: z.optional(z.string()),
    enum: z.optional(z.array(z.unknown())),
    const: z.optional(z.unknown()),
    properties: z.optional(z.record(z.string(), schemaType)),
    items: z.optional(schemaType),
    allOf: z.optional(z.array(z.record(z.string(), schemaType))),
  }),
);

/** The published schema; null when the server does not give it, and then nothing is offered. */
export async function loadSchema(version = "v1.2"): Promise<Schema | null> {
  try {
    const response = await fetch(`/schemas/plan/${version}.json`);
    const parsed = response.ok ? schemaType.safeParse(await response.json()) : null;
    return parsed?.success ? parsed.data : null;
  } catch {
    return null;
  }
}

type Step = string | number;

/** A line of block YAML: its dashes, and the column and name of its key. */
const LINE = /^(\s*)((?:- +)*)(?:(?:"([^"]*)"|'([^']*)'|([^\s:#"'{[][^:#]*?))\s*:(?:\s|$))?/;

interface Line {
  /** The columns of the dashes. */
  dashes: number[];
  column: number;
  key: string | null;
  blank: boolean;
}

function lineOf(text: string): Line {
  const [, space = "", dash = "", double, single, plain] = LINE.exec(text) ?? [];
  const dashes = [...dash.matchAll(/-/g)].map(({ index }) => space.length + index);
  const key = double ?? single ?? plain ?? null;
  const rest = text.trim();
  return { dashes, column: space.length + dash.length, key, blank: rest === "" || rest.startsWith("#") };
}

/** The path of the map or list around the keys at a column, which the dashes of the row make items of lists. */
function pathAbove(lines: readonly string[], row: number, column: number, dashes: readonly number[]): Step[] {
  const path: Step[] = [];
  // Only lines that begin before it can be the parent.
  let limit = column;
  let item = dashes.length > 0;
  const enterItem = (dash: number, from: number): void => {
    let index = 0;
    for (let i = from - 1; i >= 0; i--) {
      const line = lineOf(lines[i] ?? "");
      if (line.blank) continue;
      if (line.dashes.includes(dash)) index++;
      else if (line.column <= dash) break;
    }
    path.unshift(index);
    // A list may stand in the column of the key that it belongs to.
    limit = dash + 1;
  };
  for (const dash of dashes.toReversed()) enterItem(dash, row);
  for (let i = row - 1; i >= 0 && limit > 0; i--) {
    const line = lineOf(lines[i] ?? "");
    if (line.blank) continue;
    if (!item && line.column === limit && line.dashes.length > 0) {
      // The first key of the item that the keys belong to.
      for (const dash of line.dashes.toReversed()) enterItem(dash, i);
      item = true;
    } else if (line.column < limit && line.key !== null) {
      path.unshift(line.key);
      limit = line.column;
      item = line.dashes.length > 0;
      for (const dash of line.dashes.toReversed()) enterItem(dash, i);
    }
  }
  return path;
}

function resolved(root: Schema, schema: Schema | undefined): Schema | undefined {
  const name = schema?.$ref?.split("/").at(-1);
  return name === undefined ? schema : { ...root.$defs?.[name], ...schema, $ref: undefined };
}

function valueAt(node: unknown, path: readonly Step[]): unknown {
  let at = node;
  for (const name of path) {
    if (isSeq(at)) at = at.items[Number(name)];
    else if (isMap(at)) at = at.items.find(({ key }) => isScalar(key) && key.value === name)?.value;
    else return undefined;
  }
  return isScalar(at) ? at.value : at;
}

/** The schema of the value at a path; `allOf` is followed where its condition on a sibling holds. */
function schemaAt(root: Schema, document: unknown, path: readonly Step[]): Schema | undefined {
  let schema = resolved(root, root);
  for (const [i, name] of path.entries()) {
    const parent = schema;
    schema = resolved(root, typeof name === "number" ? parent?.items : parent?.properties?.[name]);
    for (const rule of parent?.allOf ?? []) {
      const then = rule["then"]?.properties?.[String(name)];
      const holds = Object.entries(rule["if"]?.properties ?? {}).every(
        ([sibling, { const: wanted }]) =>
          wanted !== undefined && valueAt(document, [...path.slice(0, i), sibling]) === wanted,
      );
      if (then?.$ref && holds) schema = { ...schema, ...resolved(root, then) };
    }
  }
  return schema;
}

/** The ids of the steps, for `dependsOn`. */
function stepIds(document: unknown): string[] {
  const steps = valueAt(document, ["steps"]);
  return isSeq(steps) ? steps.items.flatMap((step) => String(valueAt(step, ["stepId"]) ?? "") || []) : [];
}

/** What may be written at the caret of a plan in block YAML. Null where nothing is known. */
export function complete(schema: Schema, text: string, caret: number): Completions | null {
  const lines = text.slice(0, caret).split("\n");
  const row = lines.length - 1;
  const before = lines[row] ?? "";
  const { dashes, column, key } = lineOf(before);
  const document = parseDocument(text, { uniqueKeys: false, prettyErrors: false }).contents as Node | null;
  const path = pathAbove(lines, row, column, dashes);
  const typed = key === null ? before.slice(column) : before.slice(before.indexOf(":", column) + 1).trimStart();
  if (/[{}[\]"'#]/.test(typed)) return null;
  const from = caret - typed.length;
  const offered = (options: Completion[]): Completions | null => {
    const found = options.filter(({ label }) => label !== typed && label.toLowerCase().startsWith(typed.toLowerCase()));
    return found.length === 0 ? null : { from, options: found };
  };
  if (key !== null || typeof path.at(-1) === "number") {
    const at = key === null ? path : [...path, key];
    const of = schemaAt(schema, document, at);
    const words =
      key === null && path.at(-2) === "dependsOn"
        ? stepIds(document)
        : (of?.enum ?? (of?.type === "boolean" ? [true, false] : []));
    const values = words.map((word) => ({ label: String(word), detail: "", insert: String(word) }));
    if (key !== null || values.length > 0) return offered(values);
  }
  const object = schemaAt(schema, document, path);
  const pad = " ".repeat(column + 2);
  return offered(
    Object.entries(object?.properties ?? {}).map(([label, member]) => {
      const part = resolved(schema, member);
      const deep = part?.type === "object" ? `\n${pad}` : part?.type === "array" ? `\n${pad}- ` : " ";
      return { label, detail: part?.description ?? "", insert: `${label}:${deep}` };
    }),
  );
}
