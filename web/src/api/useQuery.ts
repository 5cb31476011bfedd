// The query layer: every component that shows the answer to a query gets it from useQuery.
import {
  focusManager,
  keepPreviousData,
  notifyManager,
  QueryClient,
  useQuery as useTanstackQuery,
} from "@tanstack/react-query";
import { useEffect, useMemo, useRef, useState } from "react";
import type { Instant } from "../format/format";
import { type ApiError, toApiError } from "./error";
import type { TypedDocumentString } from "./gen/graphql";
import { request } from "./request";

/** Holds the answers of mounted components, and those of `keep` for five minutes after. */
const queries = new QueryClient({
  defaultOptions: {
    queries: {
      // A request that fails says so; the browser's opinion about the network is not asked.
      networkMode: "always",
      retry: false,
      gcTime: 0,
      staleTime: 0,
      refetchOnReconnect: false,
      structuralSharing: false,
    },
  },
});
const KEPT_MS = 5 * 60_000;
// Without it the client does not hear that the page is visible again.
queries.mount();

// Answers reach React in the same task. The library's own scheduler waits for a timer, which a hidden tab delays.
notifyManager.setScheduler(queueMicrotask);

focusManager.setEventListener((setVisible) => {
  if (typeof document === "undefined") return undefined; // a test of functions
  const listener = (): void => setVisible(!document.hidden);
  document.addEventListener("visibilitychange", listener);
  return () => document.removeEventListener("visibilitychange", listener);
});

export interface Query<T> {
  /** The answer for the present variables; undefined until it arrives. */
  answer: T | undefined;
  /** The newest answer, also while one for other variables is awaited. */
  last: T | undefined;
  error: ApiError | null;
  /** When the answer arrived, by the local clock; 0 before. */
  asOf: Instant;
  /** `again` was called and its answer has not arrived. */
  refetching: boolean;
  /** Sends the query again and hides the error. A request in flight is cancelled, so that a late answer cannot win. */
  again: () => void;
  /** Cancels the request in flight, if any; the answer stays. */
  cancel: () => void;
}

interface Options<TResult> {
  /** Milliseconds after which the query is sent again while the page is visible; never when it is left out. */
  every?: number | ((result: TResult | undefined) => number);
  /** Milliseconds to wait after the variables or `refetchOn` changed, for input that is being typed. */
  after?: number;
  /** Part of the key: when it changes, the former answer no longer counts. */
  version?: unknown;
  /** When it changes, the query is sent again; the former answer stays until then. */
  refetchOn?: unknown;
  /** Tells whether a result never changes any more: it is kept, and not asked for again by the next component. */
  keep?: (result: TResult) => boolean;
}

/**
 * The answer to a query; none after FORBIDDEN. A change of the variables (compared as JSON) sends it and cancels the request before; null
 * sends nothing. `pick` must be pure: it runs once for each result. A query that was FORBIDDEN is not repeated, because
 * each repetition is a row in the audit. A hidden page sends no repetition; when it is visible again, one that is due
 * is sent at once. Each request ends within a minute (see `request`).
 */
export function useQuery<TResult, TVariables, T>(
  document: TypedDocumentString<TResult, TVariables>,
  variables: TVariables | null,
  pick: (result: TResult) => T,
  options: Options<TResult> = {},
): Query<T> {
  const { every, after = 0, version, refetchOn, keep } = options;
  const key = variables && JSON.stringify([variables, version]);
  const settled = useSettled(key, after);
  const [refetching, setRefetching] = useState(false);
  const queryKey = [String(document), key];
  const interval = (result: TResult | undefined): number | undefined =>
    typeof every === "function" ? every(result) : every;
  const query = useTanstackQuery<TResult>(
    {
      queryKey,
      queryKeyHashFn: (parts) => parts.join(" "),
      // The variables are read from the key, so that request and key cannot differ.
      queryFn: ({ signal }) => request(document, (JSON.parse(key ?? "") as [TVariables])[0], signal),
      enabled: key !== null && settled,
      placeholderData: keepPreviousData,
      gcTime: keep ? KEPT_MS : 0,
      staleTime: ({ state }) => (keep && state.data !== undefined && keep(state.data as TResult) ? Infinity : 0),
      refetchInterval: ({ state }) => (isForbidden(state.error) ? false : (interval(state.data) ?? false)),
      refetchOnWindowFocus: ({ state }) => {
        const ms = interval(state.data);
        const last = Math.max(state.dataUpdatedAt, state.errorUpdatedAt);
        return ms !== undefined && !isForbidden(state.error) && Date.now() - last >= ms ? "always" : false;
      },
    },
    queries,
  );
  const { refetch } = query;
  const mounted = useRef(false);
  useEffect(() => {
    if (!mounted.current) {
      mounted.current = true;
      return;
    }
    if (key === null) return;
    const timer = setTimeout(() => void refetch(), after);
    return () => clearTimeout(timer);
    // Only a change of refetchOn counts here.
    // oxlint-disable-next-line react/exhaustive-deps
  }, [refetchOn]);
  const { data } = query;
  const last = useMemo(
    () => (data === undefined ? undefined : pick(data)),
    // pick is pure.
    // oxlint-disable-next-line react/exhaustive-deps
    [data],
  );
  // A viewer who lost the right, for example when break-glass ended, must not keep the former answer.
  const refused = isForbidden(query.error);
  const current = !query.isPlaceholderData && key !== null && !refused;
  return {
    answer: current ? last : undefined,
    last: refused ? undefined : last,
    error: query.error && !refetching ? toApiError(query.error) : null,
    asOf: current ? query.dataUpdatedAt : 0,
    refetching,
    again: () => {
      setRefetching(true);
      void refetch().finally(() => setRefetching(false));
    },
    cancel: () => void queries.cancelQueries({ queryKey, exact: true }),
  };
}

/** A hook for a query that is read once: an error is not shown, because the page is whole without the answer. */
export function queryOnce<TResult, TVariables, T>(
  document: TypedDocumentString<TResult, TVariables>,
  pick: (result: TResult) => T,
  keep: (result: TResult) => boolean = () => true,
) {
  return (variables: TVariables | null): T | undefined => useQuery(document, variables, pick, { keep }).answer;
}

/**
 * Sends the shown queries again after the viewer's rights have changed. Those that were refused are left to
 * `Problem`, which asks again itself. `except` is the query that told of the change.
 */
export function refetchShown(except: unknown): void {
  void queries.refetchQueries({
    type: "active",
    predicate: ({ state, queryKey }) => !isForbidden(state.error) && queryKey[0] !== String(except),
  });
}

function isForbidden(error: unknown): boolean {
  return error !== null && toApiError(error).code === "FORBIDDEN";
}

/** Whether the key has been the same for `after` milliseconds; at once when that is 0. */
function useSettled(key: string | null, after: number): boolean {
  const [settled, setSettled] = useState(after === 0 ? key : null);
  useEffect(() => {
    if (after === 0) return;
    const timer = setTimeout(() => setSettled(key), after);
    return () => clearTimeout(timer);
  }, [key, after]);
  return after === 0 || settled === key;
}
