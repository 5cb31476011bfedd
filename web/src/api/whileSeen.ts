/** The longest that a timer takes, 24 days: for what is asked for once. */
export const ONCE_MS = 2 ** 31 - 1;

let seenSince = 0;
globalThis.document?.addEventListener("visibilitychange", () => {
  seenSince = Date.now();
});

/** How long somebody has been able to look at the page without a break. */
export function seenFor(): number {
  return document.hidden ? 0 : Date.now() - seenSince;
}

/**
 * Asks every `ms` while the page is in sight, and as soon as it is again when that took longer; the first time after `first`,
 * seen or not, when that is given. It asks nothing while the last question waits for its answer. Gives what ends it.
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
      // Whoever asks says what is wrong.
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
 * Tells when the page is looked at again after `ms` in which nobody could: it was hidden, or the machine slept. The clock is no
 * witness in a hidden page, whose timers a browser holds back for a minute. Gives what ends it.
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
