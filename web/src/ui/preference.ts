import { useState } from "react";

/** A preference stored in this browser, limited to the allowed values. */
export function usePreference<T extends string>(
  key: string,
  allowed: readonly T[],
  fallback: T,
): [T, (value: T) => void] {
  const [value, set] = useState<T>(() => {
    const stored = localStorage.getItem(key);
    return allowed.find((option) => option === stored) ?? fallback;
  });
  return [
    value,
    (next) => {
      localStorage.setItem(key, next);
      set(next);
    },
  ];
}
