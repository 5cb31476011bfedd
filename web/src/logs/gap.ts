// A log beyond its limit has lost its middle. Its rows are contiguous; its line numbers are not.

/** The missing line numbers, both included. The line `to` says that lines are missing. */
export interface Gap {
  from: number;
  to: number;
}

/** The number of rows of a log whose last line has this number. */
export function rowsOf(total: number, gap: Gap | null): number {
  return gap ? total - (gap.to - gap.from) : total;
}

/** The number of the line in a row, from 0. */
export function lineOf(row: number, gap: Gap | null): number {
  return gap && row >= gap.from - 1 ? row + 1 + gap.to - gap.from : row + 1;
}

/** The row of a line, or of the line that says that it is missing. */
export function rowOf(line: number, gap: Gap | null): number {
  if (!gap || line < gap.from) return line - 1;
  return Math.max(line, gap.to) - 1 - (gap.to - gap.from);
}
