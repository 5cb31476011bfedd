import type { ReactNode } from "react";
import css from "./Table.module.css";

export interface Column<T> {
  head: string;
  cell: (row: T) => ReactNode;
  /** The cell that names the row; it comes first on a narrow screen too. */
  main?: boolean;
  /** Left out on a narrow screen. */
  wide?: boolean;
  /** May break over lines. */
  text?: boolean;
}

interface TableProps<T> {
  label: string;
  columns: readonly Column<T>[];
  rows: readonly T[];
  rowKey: (row: T) => string;
}

/** Rows of a list; on a narrow screen each becomes a card whose values carry the column's name. */
export function Table<T>({ label, columns, rows, rowKey }: TableProps<T>) {
  return (
    <div className={css.scroll} tabIndex={0} role="region" aria-label={label}>
      <table className={css.table}>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.head} scope="col">
                {column.head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={rowKey(row)} className={css.row}>
              {columns.map((column) => (
                <td key={column.head} data-label={column.head} data-main={column.main} data-wide={column.wide} data-text={column.text}>
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
