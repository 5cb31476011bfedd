import { type RefObject, useEffect, useRef } from "react";

/**
 * Scrolls a row of links sideways, so that the current one is visible; the page itself does not move. Where the row
 * stands depends only on its widths, not on the order in which counts arrived, until a person scrolls it.
 */
export function useCurrentInSight<E extends HTMLElement>(current: string): RefObject<E | null> {
  const row = useRef<E>(null);
  useEffect(() => {
    let placed = row.current?.scrollLeft ?? 0;
    const bring = (): void => {
      const link = row.current?.querySelector<HTMLElement>("[aria-current]");
      if (!row.current || !link) return;
      const from = link.offsetLeft - row.current.offsetLeft;
      const { scrollLeft, clientWidth } = row.current;
      const inSight = from >= scrollLeft && from + link.offsetWidth <= scrollLeft + clientWidth;
      if (inSight && scrollLeft !== placed) return;
      const begins = from + link.offsetWidth <= clientWidth;
      row.current.scrollLeft = begins ? 0 : from - (clientWidth - link.offsetWidth) / 2;
      // The browser keeps it within the row.
      placed = row.current.scrollLeft;
    };
    bring();
    // A count that arrives later makes its link wider and moves the others; the row itself may become narrower.
    const sizes = new ResizeObserver(bring);
    if (row.current) for (const part of [row.current, ...row.current.children]) sizes.observe(part);
    return () => sizes.disconnect();
  }, [current]);
  return row;
}
