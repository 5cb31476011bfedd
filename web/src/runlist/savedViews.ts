// Named queries of the runs page, kept in this browser.
import * as z from "zod/mini";

export interface SavedView {
  name: string;
  /** In the form of the filter bar. */
  query: string;
}

export const MAX_VIEWS = 20;
const KEY = "dvt.views";
const stored = z.array(
  z.object({ name: z.string().check(z.minLength(1), z.maxLength(40)), query: z.string().check(z.maxLength(600)) }),
);

type Kept = Pick<Storage, "getItem" | "setItem">;

export function readViews(storage: Kept): SavedView[] {
  try {
    const parsed = stored.safeParse(JSON.parse(storage.getItem(KEY) ?? "[]"));
    return parsed.success ? parsed.data.slice(0, MAX_VIEWS) : [];
  } catch {
    return [];
  }
}

/** Saves a view; it replaces one with the same name. */
export function keepView(storage: Kept, views: readonly SavedView[], view: SavedView): SavedView[] {
  const next = [...views.filter((other) => other.name !== view.name), view].slice(-MAX_VIEWS);
  storage.setItem(KEY, JSON.stringify(next));
  return next;
}

export function dropView(storage: Kept, views: readonly SavedView[], name: string): SavedView[] {
  const next = views.filter((view) => view.name !== name);
  storage.setItem(KEY, JSON.stringify(next));
  return next;
}
