import { useCallback, useEffect, useRef, useState } from "react";
import type { TypedDocumentString } from "../api/gen/graphql";
import { request } from "../api/request";

interface Asked<T> {
  value: T | null;
  error: unknown;
  /** When it was answered, by the local clock. */
  asOf: number;
  refresh: () => void;
}

/** One answer of a query without variables, and when it came. */
export function useAsked<TResult, T>(document: TypedDocumentString<TResult, Record<string, never>>, pick: (result: TResult) => T): Asked<T> {
  const [value, setValue] = useState<T | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [asOf, setAsOf] = useState(0);
  const latest = useRef(pick);
  latest.current = pick;
  const refresh = useCallback(() => {
    request(document, {}).then(
      (result) => {
        setValue(latest.current(result));
        setAsOf(Date.now());
        setError(null);
      },
      (cause: unknown) => setError(cause),
    );
  }, [document]);
  useEffect(refresh, [refresh]);
  return { value, error, asOf, refresh };
}
