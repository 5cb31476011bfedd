// The columns of the list of runs that a viewer may choose. Status, plan and run are always shown.
import { useState } from "react";

export const COLUMNS = ["env", "steps", "started", "ended", "took", "by", "tags", "cause"] as const;
export type Column = (typeof COLUMNS)[number];

export const DEFAULT_COLUMNS: readonly Column[] = ["env", "steps", "started", "took", "by", "cause"];
/** Above this number of chosen columns a narrow window hides those that matter least, so that names stay readable. */
export const MANY_COLUMNS = 5;
const KEY = "dvt.columns";

/** The columns that a comma-separated text names, in their order in the table; null when it names none. */
export function columnsOf(text: string | null): Column[] | null {
  const named = text?.split(",") ?? [];
  const known = COLUMNS.filter((column) => named.includes(column));
  return known.length > 0 ? known : null;
}

/** The columns that the viewer prefers in this browser, used by addresses that name none. */
export function usePreferredColumns(): [readonly Column[] | null, (columns: readonly Column[] | null) => void] {
  const [preferred, set] = useState(() => columnsOf(localStorage.getItem(KEY)));
  return [
    preferred,
    (columns) => {
      if (columns === null) localStorage.removeItem(KEY);
      else localStorage.setItem(KEY, columns.join(","));
      set(columns === null ? null : [...columns]);
    },
  ];
}
