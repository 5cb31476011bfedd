// What the pages offer to the palette, in the manner of keys.ts: a component offers entries while it is mounted.
import { useEffect, useRef } from "react";

export interface PaletteEntry {
  key: string;
  word: string;
  hint?: string;
  act: () => void;
}

/** The entries for a typed text; they are built when the palette asks, because a run has thousands of steps. */
type Offer = (typed: string) => readonly PaletteEntry[];

const offers: { current: Offer }[] = [];

/** The entries of the page for a typed text, those of the newest component first. */
export function offeredEntries(typed: string): readonly PaletteEntry[] {
  return offers.toReversed().flatMap(({ current }) => current(typed));
}

export function usePaletteEntries(offer: Offer): void {
  const latest = useRef(offer);
  latest.current = offer;
  useEffect(() => {
    offers.push(latest);
    return () => void offers.splice(offers.indexOf(latest), 1);
  }, []);
}
