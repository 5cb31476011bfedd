// Parameters as rows of a form. A value that parses as JSON is JSON, any other is a text.
export interface ParamRow {
  name: string;
  value: string;
}

/** The rows of a JSON object; null when the text is none. */
export function toRows(text: string): ParamRow[] | null {
  if (text.trim() === "") return [];
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== "object" || value === null || Array.isArray(value)) return null;
    return Object.entries(value).map(([name, part]) => ({
      name,
      value: typeof part === "string" && !readsAsJson(part) ? part : JSON.stringify(part),
    }));
  } catch {
    return null;
  }
}

export function fromRows(rows: readonly ParamRow[]): string {
  if (rows.length === 0) return "";
  return JSON.stringify(
    Object.fromEntries(
      rows.map(({ name, value }) => [name, readsAsJson(value) ? (JSON.parse(value) as unknown) : value]),
    ),
    null,
    2,
  );
}

function readsAsJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
