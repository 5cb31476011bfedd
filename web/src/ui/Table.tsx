import type { ReactNode } from "react";
import css from "./Table.module.css";

export interface Column<T> {
  head: string;
  cell: (row: T) => ReactNode;
  /** The cell that names the row; it is the first on a narrow screen too. */
  main?: boolean;
  /** Left out on a narrow screen. */
  wide?: boolean;
  /** May break into several lines. */
  text?: boolean;
  /** Cut to one line; the cell itself can show the rest. */
  line?: boolean;
}

interface TableProps<T> {
  label: string;
  columns: readonly Column<T>[];
  rows: readonly T[];
  rowKey: (row: T) => string;
}

/** Rows of a list; on a narrow screen each becomes a card whose values carry the column's name. */
export function Table<T>({ label, columns, rows, rowKey }: TableProps<T>) {
  // Columns of text take the remaining width, else the last column does, so that short columns stay together.
  const roomy = columns.filter(({ text, line }) => text || line).length;
  const rest = (column: Column<T>, i: number): number | undefined =>
    roomy === 0 ? (i === columns.length - 1 ? 1 : undefined) : column.text || column.line ? roomy : undefined;
  return (
    <div className={css.scroll} tabIndex={0} role="region" aria-label={label}>
      <table className={css.table} data-short={roomy === 0 || undefined}>
        <thead>
          <tr>
            {columns.map((column, i) => (
              <th key={column.head} scope="col" data-wide={column.wide} data-rest={rest(column, i)}>
                {column.head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={rowKey(row)} className={css.row}>
              {columns.map((column) => (
                <td
                  key={column.head}
                  data-label={column.head}
                  data-main={column.main}
                  data-wide={column.wide}
                  data-text={column.text}
                  data-line={column.line}
                >
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
