import { type RefObject, useEffect, useRef } from "react";

/** Milliseconds. */
const LASTS = 600;
const SECOND = 1_000;
/** At most so many in a second on the whole screen: what moves everywhere is no news. */
export const MOST_FLASHES = 10;

const recent: number[] = [];

/** Whether one more may begin now, given when the last ones began; then it counts as one of them. */
export function mayFlash(begun: number[], now: number): boolean {
  while (begun[0] !== undefined && begun[0] <= now - SECOND) begun.shift();
  if (begun.length >= MOST_FLASHES) return false;
  begun.push(now);
  return true;
}

/** For an element that shows a value (with the style `flash`): its background lights up once when the value becomes another, not when it comes into view, nor while it is lit, and never for those who want no motion. */
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
    // Opacity alone, which costs the page nothing while it lasts.
    element.current?.animate({ opacity: [0.3, 0] }, { duration: LASTS, easing: "ease-out", pseudoElement: "::after" });
  }, [value]);
  return element;
}
