// Single-key shortcuts: one listener for the page, a list that the help shows, and a switch (WCAG 2.1.4).
import { useEffect, useRef, useSyncExternalStore } from "react";

export interface Shortcut {
  /** As `KeyboardEvent.key` has it; `g r` is r within 1.5 s of g. */
  keys: string;
  does: string;
  run: () => void;
}

interface Bound {
  current: readonly Shortcut[];
}

const SEQUENCE_MS = 1_500;
const PREFERENCE = "dvt.keys";
const TYPED = "textarea, select, [contenteditable], [role=menu], input:not([type=checkbox], [type=radio], [type=button], [type=submit])";

/** The newest last: what is bound last is heard first. */
const bound: Bound[] = [];
const listeners = new Set<() => void>();
let prefix = "";
let prefixUntil = 0;

export function keysOn(): boolean {
  return localStorage.getItem(PREFERENCE) !== "off";
}

export function setKeysOn(on: boolean): void {
  if (on) localStorage.removeItem(PREFERENCE);
  else localStorage.setItem(PREFERENCE, "off");
  for (const listener of listeners) listener();
}

export function useKeysOn(): boolean {
  return useSyncExternalStore((listener) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, keysOn);
}

/** All that a key does now, each key once. */
export function shortcuts(): Shortcut[] {
  const seen = new Map<string, Shortcut>();
  for (const { current } of bound.toReversed()) {
    for (const shortcut of current) if (!seen.has(shortcut.keys)) seen.set(shortcut.keys, shortcut);
  }
  return [...seen.values()];
}

function hear(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing || !keysOn()) return;
  if (event.target instanceof Element && event.target.closest(TYPED)) return;
  if (document.querySelector("dialog:modal")) return;
  const now = Date.now();
  const sequence = now < prefixUntil ? `${prefix} ${event.key}` : event.key;
  const known = shortcuts();
  const found = known.find((shortcut) => shortcut.keys === sequence) ?? known.find((shortcut) => shortcut.keys === event.key);
  prefix = found ? "" : event.key;
  prefixUntil = !found && known.some((shortcut) => shortcut.keys.startsWith(`${event.key} `)) ? now + SEQUENCE_MS : 0;
  if (!found) return;
  event.preventDefault();
  found.run();
}

/** Binds keys while the component is there. They never fire in fields or under a dialog; a key never acts, it goes or asks. */
export function useKeys(list: readonly Shortcut[]): void {
  const latest = useRef(list);
  latest.current = list;
  useEffect(() => {
    if (bound.length === 0) document.addEventListener("keydown", hear);
    bound.push(latest);
    return () => {
      bound.splice(bound.indexOf(latest), 1);
      if (bound.length === 0) document.removeEventListener("keydown", hear);
    };
  }, []);
}
