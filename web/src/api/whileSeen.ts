/** Whether somebody can be looking. */
function seen(): boolean {
  return document.visibilityState === "visible";
}

/** Asks every `ms` while the page is in sight, and as soon as it is again when that took longer. Gives what ends it. */
export function whileSeen(ms: number, ask: () => void): () => void {
  let last = Date.now();
  const now = (): void => {
    last = Date.now();
    ask();
  };
  const timer = setInterval(() => seen() && now(), ms);
  const back = (): void => {
    if (seen() && Date.now() - last >= ms) now();
  };
  document.addEventListener("visibilitychange", back);
  return () => {
    clearInterval(timer);
    document.removeEventListener("visibilitychange", back);
  };
}
