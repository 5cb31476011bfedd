// Turns the text of an artifact into rows of a table. All sizes are bounded, because a step chose the content.
import { isRecord } from "./record";

export const MOST_ROWS = 1_000;
const MOST_COLUMNS = 100;
const MOST_CELL = 500;

export interface Rows {
  heads: readonly string[];
  rows: readonly (readonly string[])[];
  /** The text has more rows or columns. */
  cut: boolean;
}

export type SampleForm = "csv" | "ndjson" | "json";

/** The form of a file with rows by its name; null for another file. */
export function sampleForm(name: string): SampleForm | null {
  const ending = /\.(?<ending>csv|tsv|ndjson|jsonl|json)$/i.exec(name)?.groups?.["ending"]?.toLowerCase();
  if (ending === undefined) return null;
  return ending === "csv" || ending === "tsv" ? "csv" : ending === "json" ? "json" : "ndjson";
}

/** The rows of a sample; null when the text has none. `whole` says that the text is not the beginning of a longer one. */
export function rowsOf(form: SampleForm, text: string, whole: boolean): Rows | null {
  if (form === "csv") return csvRows(text, whole);
  return form === "json" ? jsonRows(text) : recordRows(linesOf(text, whole));
}

function jsonRows(text: string): Rows | null {
  try {
    const parsed: unknown = JSON.parse(text);
    return Array.isArray(parsed)
      ? recordRows({ records: parsed.slice(0, MOST_ROWS), cut: parsed.length > MOST_ROWS })
      : null;
  } catch {
    return null;
  }
}

interface Records {
  records: unknown[];
  cut: boolean;
}

function linesOf(text: string, whole: boolean): Records {
  const lines = text.split("\n", MOST_ROWS + 2).filter((line) => line.trim() !== "");
  const records: unknown[] = [];
  for (const line of lines.slice(0, MOST_ROWS)) {
    try {
      records.push(JSON.parse(line));
    } catch {
      break; // the end of a text that was cut, or no JSON
    }
  }
  return { records, cut: !whole || lines.length > MOST_ROWS || records.length < lines.length };
}

/** Objects become rows with a column for each key; lists have numbers for names. */
function recordRows({ records, cut }: Records): Rows | null {
  const heads: string[] = [];
  const known = new Set<string>();
  let left = cut;
  for (const record of records) {
    for (const key of Object.keys(fieldsOf(record))) {
      if (known.has(key)) continue;
      if (heads.length === MOST_COLUMNS) left = true;
      else {
        known.add(key);
        heads.push(key);
      }
    }
  }
  if (heads.length === 0) return null;
  const rows = records.map((record) => {
    const fields = new Map(Object.entries(fieldsOf(record)));
    return heads.map((head) => cellOf(fields.get(head)));
  });
  return { heads, rows, cut: left };
}

function fieldsOf(record: unknown): Readonly<Record<string, unknown>> {
  return isRecord(record) ? record : { value: record };
}

function cellOf(value: unknown): string {
  if (value === undefined || value === null) return "";
  return cutCell(typeof value === "string" ? value : JSON.stringify(value));
}

function cutCell(text: string): string {
  return text.length > MOST_CELL ? `${text.slice(0, MOST_CELL)}…` : text;
}

/** Comma-separated values by RFC 4180; the separator is the most frequent of the first line. */
function csvRows(text: string, whole: boolean): Rows | null {
  const first = text.slice(0, text.search(/\r?\n|$/));
  const separator = [",", ";", "\t", "|"].reduce((best, other) =>
    first.split(other).length > first.split(best).length ? other : best,
  );
  const rows: string[][] = [];
  let row: string[] = [];
  let at = 0;
  let cut = !whole;
  while (at < text.length && rows.length <= MOST_ROWS + 1) {
    const { cell, next, closed } = cellAt(text, at, separator);
    row.push(cutCell(cell));
    const end = text[next];
    if (end === separator && closed) {
      at = next + 1;
      if (at === text.length) row.push("");
      continue;
    }
    // The last row of a text that was cut is not complete.
    if (next < text.length || whole) rows.push(row);
    row = [];
    at = end === "\r" && text[next + 1] === "\n" ? next + 2 : next + 1;
  }
  const [heads, ...rest] = rows.filter((cells) => cells.length > 1 || cells[0] !== "");
  if (!heads) return null;
  cut ||= rest.length > MOST_ROWS || heads.length > MOST_COLUMNS;
  return {
    heads: heads.slice(0, MOST_COLUMNS),
    rows: rest.slice(0, MOST_ROWS).map((cells) => heads.slice(0, MOST_COLUMNS).map((_, i) => cells[i] ?? "")),
    cut,
  };
}

/** The cell that begins at a position, and where it ends. */
function cellAt(text: string, at: number, separator: string): { cell: string; next: number; closed: boolean } {
  if (text[at] !== '"') {
    let next = at;
    while (next < text.length && text[next] !== separator && text[next] !== "\n" && text[next] !== "\r") next++;
    return { cell: text.slice(at, next), next, closed: true };
  }
  let cell = "";
  let from = at + 1;
  for (;;) {
    const quote = text.indexOf('"', from);
    if (quote < 0) return { cell: cell + text.slice(from), next: text.length, closed: false };
    cell += text.slice(from, quote);
    if (text[quote + 1] !== '"') {
      let next = quote + 1;
      while (next < text.length && text[next] !== separator && text[next] !== "\n" && text[next] !== "\r") next++;
      return { cell, next, closed: true };
    }
    cell += '"';
    from = quote + 2;
  }
}
