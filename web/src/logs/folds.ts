// A folded log shows the lines that mention an error, with a few around each, and one row for each passage between.

/** A line, or a folded passage of lines, both ends included. */
export type FoldedRow = { kind: "line"; no: number } | { kind: "fold"; from: number; to: number };

const AROUND = 2;

/** The rows of a folded log of `total` lines. A passage of one line is that line. */
export function foldedRows(total: number, errors: readonly number[]): FoldedRow[] {
  const rows: FoldedRow[] = [];
  let next = 1;
  const fold = (to: number): void => {
    if (to === next) rows.push({ kind: "line", no: next });
    else if (to > next) rows.push({ kind: "fold", from: next, to });
    next = Math.max(next, to + 1);
  };
  for (const error of errors) {
    fold(Math.min(error - AROUND - 1, total));
    for (; next <= Math.min(error + AROUND, total); next++) rows.push({ kind: "line", no: next });
  }
  fold(total);
  return rows;
}

/** The index of the row with a line, or of the passage that it is in. */
export function foldedIndex(rows: readonly FoldedRow[], line: number): number {
  const at = rows.findIndex((row) => (row.kind === "line" ? row.no : row.to) >= line);
  return Math.max(0, at === -1 ? rows.length - 1 : at);
}
