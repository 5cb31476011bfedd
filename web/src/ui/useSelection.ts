import { type FocusEvent, useCallback, useEffect, useMemo, useRef, useState } from "react";
import { m } from "../messages";
import { useKeys } from "./keys";

/** The selected rows, in the order of `ids`. */
export function useSelection(ids: readonly string[]) {
  const [chosen, setSelected] = useState<ReadonlySet<string>>(new Set());
  const anchor = useRef<string | null>(null);
  const order = useRef(ids);
  order.current = ids;
  const turn = useCallback((id: string, range: boolean): void => {
    const from = anchor.current === null ? -1 : order.current.indexOf(anchor.current);
    const to = order.current.indexOf(id);
    setSelected((old) => {
      const next = new Set(old);
      if (range && from >= 0)
        for (const other of order.current.slice(Math.min(from, to), Math.max(from, to) + 1)) next.add(other);
      else if (!next.delete(id)) next.add(id);
      return next;
    });
    anchor.current = id;
  }, []);
  const turnAll = useCallback((on: boolean) => setSelected(new Set(on ? order.current : [])), []);
  const clear = useCallback(() => {
    // The bar with the focused button goes away, so the focus moves to a selected row.
    if (document.activeElement?.closest("[data-bar]"))
      document.querySelector<HTMLElement>("[data-selected] :is(a, button)")?.focus();
    setSelected(new Set());
  }, []);
  // A row that is filtered away is not selected.
  const selected = useMemo(() => new Set(ids.filter((id) => chosen.has(id))), [ids, chosen]);
  return { selected, turn, turnAll, clear };
}

const ROW = "[data-run]";

function here(): HTMLElement | null {
  return document.activeElement?.closest<HTMLElement>(ROW) ?? null;
}

/** j and k move the focus from row to row; Enter opens the row's link. */
export function useRowKeys(): void {
  const last = useRef<string | null>(null);
  const go = (by: number): void => {
    const rows = [...document.querySelectorAll<HTMLElement>(ROW)];
    const at = rows.findIndex((row) => row === here() || (here() === null && row.dataset["run"] === last.current));
    const row = rows[at < 0 ? 0 : Math.max(0, Math.min(rows.length - 1, at + by))];
    row?.querySelector("a")?.focus();
    last.current = row?.dataset["run"] ?? null;
  };
  useKeys({
    j: { does: m.keys.next, run: () => go(1), repeats: true },
    k: { does: m.keys.previous, run: () => go(-1), repeats: true },
  });
}

/** When the focused row goes away, moves the focus to the row in its place, or else to the tab of the list. */
export function useKeptFocus(): (event: FocusEvent) => void {
  const had = useRef<{ row: HTMLElement; at: number } | null>(null);
  useEffect(() => {
    if (had.current === null || had.current.row.isConnected || document.activeElement !== document.body) return;
    const links = [...document.querySelectorAll<HTMLElement>(`${ROW} a`)];
    (
      links[Math.min(had.current.at, links.length - 1)] ?? document.querySelector<HTMLElement>("main [aria-current]")
    )?.focus();
  });
  return ({ target }) => {
    const row = target.closest<HTMLElement>(ROW);
    if (row) had.current = { row, at: [...document.querySelectorAll(ROW)].indexOf(row) };
  };
}

/** x selects the focused row, X all rows from the last selected one to it. */
export function useSelectKeys(
  turn: (id: string, range: boolean) => void,
  selectedSome: boolean,
  clear: () => void,
): void {
  const select = (range: boolean) => (): void => {
    const id = here()?.dataset["run"];
    if (id !== undefined) turn(id, range);
  };
  useKeys({
    x: { does: m.keys.select, run: select(false) },
    X: { does: m.keys.selectRange, run: select(true) },
    ...(selectedSome ? { Escape: { does: m.keys.clear, run: clear } } : {}),
  });
}
