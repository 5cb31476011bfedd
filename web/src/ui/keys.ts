// Single-key shortcuts: one listener for the page, a list that the help shows, and a switch (WCAG 2.1.4).
import { useEffect, useRef, useSyncExternalStore } from "react";

/** What a key does; with words it stands in the help. Keys are as `KeyboardEvent.key` has them; `g r` is r within 1.5 s of g. */
type Does = (() => void) | { does: string; run: () => void; /** Goes on while it is held down. */ repeats?: boolean };
type Keys = Readonly<Record<string, Does>>;

interface Bound {
  current: Keys;
}

const SEQUENCE_MS = 1_500;
const PREFERENCE = "dvt.keys";
const TYPED =
  "textarea, select, [contenteditable], [role=menu], input:not([type=checkbox], [type=radio], [type=button], [type=submit])";

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

/** What each key does now: what was bound last wins. */
function known(): Map<string, Does> {
  return new Map(bound.flatMap(({ current }) => Object.entries(current)));
}

/** The keys of this page in words, for the help. */
export function keysInWords(): { keys: string; does: string }[] {
  return [...known()].flatMap(([keys, does]) => (typeof does === "function" ? [] : [{ keys, does: does.does }]));
}

function hear(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing || !keysOn())
    return;
  if (event.target instanceof Element && event.target.closest(TYPED)) return;
  if (document.querySelector("dialog[open]")) return;
  const now = event.timeStamp; // when it was pressed, however late it is heard
  const keys = known();
  const found = (now < prefixUntil ? keys.get(`${prefix} ${event.key}`) : undefined) ?? keys.get(event.key);
  prefix = event.key;
  prefixUntil = !found && [...keys.keys()].some((name) => name.startsWith(`${prefix} `)) ? now + SEQUENCE_MS : 0;
  if (!found || (event.repeat && (typeof found === "function" || !found.repeats))) return;
  event.preventDefault();
  if (typeof found === "function") found();
  else found.run();
}

/**
 * Binds keys while the component is there. They never fire in fields, under a dialog, with a modifier other than
 * Shift, or when what has the focus has taken the key. A key never acts: it goes somewhere or asks.
 */
export function useKeys(keys: Keys): void {
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    if (bound.length === 0) document.addEventListener("keydown", hear);
    bound.push(latest);
    return () => {
      bound.splice(bound.indexOf(latest), 1);
      if (bound.length === 0) document.removeEventListener("keydown", hear);
    };
  }, []);
}
