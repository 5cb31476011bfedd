import { type RefObject, useEffect, useRef } from "react";

/** Milliseconds. */
const LASTS = 600;
const SECOND = 1_000;
/** The most flashes in a second on the whole screen. */
export const MOST_FLASHES = 10;

const recent: number[] = [];

/** Whether another flash may start now, given the times of the last ones; it then counts as one of them. */
export function mayFlash(begun: number[], now: number): boolean {
  while (begun[0] !== undefined && begun[0] <= now - SECOND) begun.shift();
  if (begun.length >= MOST_FLASHES) return false;
  begun.push(now);
  return true;
}

/**
 * Flashes the background of an element (with the style `flash`) once when its value changes. It does not flash when it
 * is mounted, while it is flashing, or for people who prefer reduced motion.
 */
export function useFlash<E extends HTMLElement>(value: string | number): RefObject<E | null> {
  const element = useRef<E>(null);
  const shown = useRef(value);
  const lit = useRef(0);
  useEffect(() => {
    if (shown.current === value) return;
    shown.current = value;
    const now = performance.now();
    if (
      now < lit.current ||
      document.hidden ||
      matchMedia("(prefers-reduced-motion: reduce)").matches ||
      !mayFlash(recent, now)
    )
      return;
    lit.current = now + LASTS;
    // Opacity alone, which needs no layout and no paint.
    element.current?.animate({ opacity: [0.14, 0] }, { duration: LASTS, easing: "ease-out", pseudoElement: "::after" });
  }, [value]);
  return element;
}
