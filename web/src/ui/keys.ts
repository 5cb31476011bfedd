import { useEffect, useRef } from "react";

const SINGLE_KEYS = "dvt.keys";

/** Whether single keys do something; one may turn them off (WCAG 2.1.4). */
export function keysOn(): boolean {
  return localStorage.getItem(SINGLE_KEYS) !== "off";
}

export function setKeysOn(on: boolean): void {
  localStorage.setItem(SINGLE_KEYS, on ? "on" : "off");
}

function typing(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

/**
 * Runs what belongs to a key pressed alone, by `event.key`. It never fires while somebody types, while a
 * dialog is open, with a modifier other than Shift, or when what has the focus has taken the key.
 */
export function useKeys(keys: Record<string, () => void>): void {
  const current = useRef(keys);
  current.current = keys;
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
      if (typing(event.target) || document.querySelector("dialog[open]") || !keysOn()) return;
      const act = current.current[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
}
