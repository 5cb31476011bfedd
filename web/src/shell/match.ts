/** The entries for which every typed word is the beginning of one of their words, in their order. */
export function matching<T extends { word: string }>(entries: readonly T[], typed: string): T[] {
  const parts = typed
    .toLowerCase()
    .split(/\s+/)
    .filter((part) => part !== "");
  return entries.filter((entry) => {
    const words = entry.word.toLowerCase().split(/[^\p{L}\p{N}]+/u);
    return parts.every((part) => words.some((word) => word.startsWith(part)));
  });
}
