// Single-key shortcuts: one listener for the page, a list that the help shows, and a switch (WCAG 2.1.4).
import { useEffect, useRef, useSyncExternalStore } from "react";

/**
 * The action of a key and its text for the help, which so lists every key. Keys are named as in `KeyboardEvent.key`;
 * `g r` is r within 1.5 s of g.
 */
interface Does {
  does: string;
  run: () => void;
  /** Repeats while the key is held down. */
  repeats?: boolean;
}
type Keys = Readonly<Record<string, Does>>;

interface Bound {
  current: Keys;
}

const SEQUENCE_MS = 1_500;
const PREFERENCE = "dvt.keys";
const TYPED =
  "textarea, select, [contenteditable], [role=menu], input:not([type=checkbox], [type=radio], [type=button], [type=submit])";

/** The newest at the end: it wins. */
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

/** The action of each key; the newest binding wins. */
function known(): Map<string, Does> {
  return new Map(bound.flatMap(({ current }) => Object.entries(current)));
}

/** The keys of this page with their texts, for the help. */
export function keysInWords(): { keys: string; does: string }[] {
  return [...known()].map(([keys, { does }]) => ({ keys, does }));
}

function hear(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing || !keysOn())
    return;
  // The target of an event from a shadow root, such as an editor, is only its host.
  const [target] = event.composedPath();
  if (target instanceof Element && target.closest(TYPED)) return;
  if (document.querySelector("dialog[open]")) return;
  const now = event.timeStamp; // when the key was pressed, not when the event is handled
  const keys = known();
  const found = (now < prefixUntil ? keys.get(`${prefix} ${event.key}`) : undefined) ?? keys.get(event.key);
  prefix = event.key;
  prefixUntil = !found && [...keys.keys()].some((name) => name.startsWith(`${prefix} `)) ? now + SEQUENCE_MS : 0;
  if (!found || (event.repeat && !found.repeats)) return;
  event.preventDefault();
  found.run();
}

/**
 * Binds keys while the component is mounted. They never fire in fields, under a dialog, with a modifier other than
 * Shift, or when the focused element has handled the key. A key never sends anything: it navigates or opens a dialog.
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
