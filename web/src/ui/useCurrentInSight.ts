import { type RefObject, useEffect, useRef } from "react";

/** Scrolls a row of links sideways, so that the current one is visible; the page itself does not move. */
export function useCurrentInSight<E extends HTMLElement>(current: string): RefObject<E | null> {
  const row = useRef<E>(null);
  useEffect(() => {
    const bring = (): void => {
      const link = row.current?.querySelector<HTMLElement>("[aria-current]");
      if (!row.current || !link) return;
      const from = link.offsetLeft - row.current.offsetLeft;
      const { scrollLeft, clientWidth } = row.current;
      if (from < scrollLeft || from + link.offsetWidth > scrollLeft + clientWidth)
        row.current.scrollLeft = from - (clientWidth - link.offsetWidth) / 2;
    };
    bring();
    // A count that arrives later makes its link wider and moves the others; the row itself may become narrower.
    const sizes = new ResizeObserver(bring);
    if (row.current) for (const part of [row.current, ...row.current.children]) sizes.observe(part);
    return () => sizes.disconnect();
  }, [current]);
  return row;
}
