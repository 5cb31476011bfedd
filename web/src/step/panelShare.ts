export const [LEAST, USUAL, MOST] = [25, 40, 70];
export const STEP = 2;
const KEY = "dvt.panel";

/** The share limited to its range, in whole percent. */
export function within(share: number): number {
  return Math.round(Math.min(MOST, Math.max(LEAST, share)));
}

export function readShare(): number {
  const kept = Number(localStorage.getItem(KEY) ?? USUAL);
  return Number.isFinite(kept) ? within(kept) : USUAL;
}

export function writeShare(share: number): void {
  localStorage.setItem(KEY, String(within(share)));
}
