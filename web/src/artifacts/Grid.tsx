import { useVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useRef } from "react";
import virtual from "../styles/Virtual.module.css";
import css from "./Artifacts.module.css";

const ROW = 28;
const COLUMN = 140;

interface GridProps {
  label: string;
  heads: readonly string[];
  rows: readonly (readonly string[])[];
  /** The widths of the columns in CSS; equal ones without. */
  widths?: readonly string[];
  /** The content of a cell; its text without. */
  cell?: (row: number, column: number) => ReactNode;
}

/** A table of texts. Only the rows in sight are in the document. */
export function Grid({ label, heads, rows, widths, cell }: GridProps) {
  const pane = useRef<HTMLDivElement>(null);
  const list = useVirtualizer({
    count: rows.length,
    getScrollElement: () => pane.current,
    estimateSize: () => ROW,
    overscan: 12,
  });
  const columns = widths?.join(" ") ?? `repeat(${heads.length}, minmax(${COLUMN}px, 1fr))`;
  const style = { gridTemplateColumns: columns, minWidth: heads.length * COLUMN };
  return (
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling region must be reachable by keyboard
    <div ref={pane} className={virtual.pane} role="region" aria-label={label} tabIndex={0}>
      <div role="table" aria-label={label} aria-rowcount={rows.length + 1} style={{ minWidth: style.minWidth }}>
        <div role="row" className={`${css.cells} ${css.heads}`} style={style}>
          {heads.map((head, i) => (
            <span key={`${i} ${head}`} role="columnheader" title={head}>
              {head}
            </span>
          ))}
        </div>
        <div role="rowgroup" className={virtual.extent} style={{ height: list.getTotalSize() }}>
          {list.getVirtualItems().map((item) => (
            <div
              key={item.key}
              role="row"
              aria-rowindex={item.index + 2}
              className={`${virtual.row} ${css.cells}`}
              style={{ ...style, transform: `translateY(${item.start}px)` }}
            >
              {(rows[item.index] ?? []).map((text, column) => (
                <span key={heads[column]} role="cell" title={text}>
                  {cell?.(item.index, column) ?? text}
                </span>
              ))}
            </div>
          ))}
        </div>
      </div>
    </div>
  );
}

const LINE = 20;
const MOST_LINE = 2_000;

/** Lines of a text. Only those in sight are in the document. */
export function Lines({ label, lines }: { label: string; lines: readonly { no: number; text: string }[] }) {
  const pane = useRef<HTMLDivElement>(null);
  const list = useVirtualizer({
    count: lines.length,
    getScrollElement: () => pane.current,
    estimateSize: () => LINE,
    overscan: 30,
  });
  return (
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling region must be reachable by keyboard
    <div ref={pane} className={`${virtual.pane} ${css.lines}`} role="region" aria-label={label} tabIndex={0}>
      <div className={virtual.extent} style={{ height: list.getTotalSize() }}>
        {list.getVirtualItems().map((item) => {
          const line = lines[item.index];
          return (
            <div key={item.key} className={css.line} style={{ transform: `translateY(${item.start}px)` }}>
              <span className={css.no}>{line?.no}</span>
              <code>{line && line.text.length > MOST_LINE ? `${line.text.slice(0, MOST_LINE)}…` : line?.text}</code>
            </div>
          );
        })}
      </div>
    </div>
  );
}
