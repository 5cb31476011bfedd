// Copies a link and lets the frame of the page say so.
import { useSyncExternalStore } from "react";

export type Copied = "copied" | "failed" | null;

const SHOWN_MS = 4_000;
let state: Copied = null;
let timer: ReturnType<typeof setTimeout> | undefined;
const listeners = new Set<() => void>();

function setState(next: Copied): void {
  state = next;
  for (const listener of listeners) listener();
}

/** Copies an address; a browser may refuse it, for example without TLS. */
export async function copyLink(url: string): Promise<void> {
  clearTimeout(timer);
  const copied = await navigator.clipboard?.writeText(url).then(
    () => true,
    () => false,
  );
  setState(copied === true ? "copied" : "failed");
  timer = setTimeout(() => setState(null), SHOWN_MS);
}

export function useCopied(): Copied {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => state,
  );
}
