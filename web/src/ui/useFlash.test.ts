import { expect, it } from "vitest";
import { MOST_FLASHES, mayFlash } from "./useFlash";

it("no second sees more flashes than the screen may have, and those refused do not count", () => {
  const begun: number[] = [];
  const at = Array.from({ length: 400 }, (_, i) => i * 10).filter((now) => mayFlash(begun, now));
  for (const from of at)
    expect(at.filter((now) => now >= from && now < from + 1_000).length).toBeLessThanOrEqual(MOST_FLASHES);
  expect(at.length).toBe(4 * MOST_FLASHES);
  expect(begun.length).toBeLessThanOrEqual(MOST_FLASHES);
});
