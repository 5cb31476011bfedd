// What the page offers for *Copy as*, in the manner of paletteEntries.ts: the newest offer wins. The texts themselves
// are built when they are wanted, because few pages are copied.
import { useEffect, useRef } from "react";
import type { ListFilter, RerunRequest, SignalRequest } from "./texts";

export type CopySubject =
  | { of: "run"; runId: string }
  | { of: "list"; filter: ListFilter }
  | ({ of: "signal" } & SignalRequest)
  | ({ of: "rerun" } & RerunRequest);

type Offer = () => CopySubject;

const offers: { current: Offer }[] = [];

/** The subject of the page that is shown; null when it offers none. */
export function offeredSubject(): CopySubject | null {
  return offers.at(-1)?.current() ?? null;
}

export function useCopySubject(offer: Offer): void {
  const latest = useRef(offer);
  latest.current = offer;
  useEffect(() => {
    offers.push(latest);
    return () => void offers.splice(offers.indexOf(latest), 1);
  }, []);
}
