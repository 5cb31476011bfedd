import { type RefObject, useEffect, useRef } from "react";

/** For a row of links that scrolls aside: the one that stands for where one is comes into its sight; the page itself does not move. */
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
    // A count that comes later makes its link wider, and pushes the others on.
    const links = new ResizeObserver(bring);
    for (const link of row.current?.children ?? []) links.observe(link);
    return () => links.disconnect();
  }, [current]);
  return row;
}
