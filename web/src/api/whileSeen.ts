/** The longest delay of a timer, 24 days: never, in practice. */
export const ONCE_MS = 2 ** 31 - 1;

let seenSince = 0;
globalThis.document?.addEventListener("visibilitychange", () => {
  seenSince = Date.now();
});

/** For how many milliseconds the page has been visible without a break. */
export function seenFor(): number {
  return document.hidden ? 0 : Date.now() - seenSince;
}

/**
 * Calls `ask` every `ms` while the page is visible, and at once when it becomes visible later than that. With `first`,
 * the first call comes after that many milliseconds, also in a hidden page. No call starts before the last one has
 * ended. Returns the function that stops it.
 */
export function whileSeen(ms: number, ask: () => unknown, first?: number): () => void {
  let last = Date.now();
  let waits = false;
  const now = async (): Promise<void> => {
    if (waits) return;
    last = Date.now();
    waits = true;
    try {
      await ask();
    } catch {
      // The caller shows its own error.
    }
    waits = false;
  };
  const begin = first === undefined ? undefined : setTimeout(now, first);
  const timer = setInterval(() => document.hidden || now(), ms);
  const back = (): void => {
    if (!document.hidden && Date.now() - last >= ms) void now();
  };
  document.addEventListener("visibilitychange", back);
  return () => {
    clearTimeout(begin);
    clearInterval(timer);
    document.removeEventListener("visibilitychange", back);
  };
}

/**
 * Calls `back` when the page is visible again after more than `ms`: it was hidden, or the machine slept. Timers of a
 * hidden page prove nothing, because browsers delay them by up to a minute. Returns the function that stops it.
 */
export function afterAbsence(ms: number, back: () => void): () => void {
  let last = Date.now();
  const look = (): void => {
    if (document.hidden) return;
    const away = Date.now() - last;
    last = Date.now();
    if (away > ms) back();
  };
  const timer = setInterval(look, 1_000);
  document.addEventListener("visibilitychange", look);
  return () => {
    clearInterval(timer);
    document.removeEventListener("visibilitychange", look);
  };
}
