// The differences between two JSON documents, part by part.

export interface Change {
  /** The path of the part, such as `grants[2].role`. */
  path: string;
  /** Null for a part that is added. */
  before: string | null;
  /** Null for a part that is removed. */
  after: string | null;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function shown(value: unknown): string | null {
  return value === undefined ? null : JSON.stringify(value);
}

/** Compares entries of lists by their content, not by their index, so that an entry put in front changes no other. */
function lists(before: readonly unknown[], after: readonly unknown[], path: string): Change[] {
  const held = new Set(before.map((entry) => JSON.stringify(entry)));
  const kept = new Set(after.map((entry) => JSON.stringify(entry)));
  return [
    ...before
      .filter((entry) => !kept.has(JSON.stringify(entry)))
      .map((entry) => ({ path, before: shown(entry), after: null })),
    ...after
      .filter((entry) => !held.has(JSON.stringify(entry)))
      .map((entry) => ({ path, before: null, after: shown(entry) })),
  ];
}

export function changes(before: unknown, after: unknown, path = ""): Change[] {
  if (JSON.stringify(before) === JSON.stringify(after)) return [];
  if (Array.isArray(before) && Array.isArray(after)) return lists(before, after, path);
  if (isObject(before) && isObject(after)) {
    const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])];
    return keys.flatMap((key) => changes(before[key], after[key], path === "" ? key : `${path}.${key}`));
  }
  return [{ path, before: shown(before), after: shown(after) }];
}
