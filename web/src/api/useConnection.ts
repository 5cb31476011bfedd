import { useCallback, useEffect, useRef, useState } from "react";
import type { TypedDocumentString } from "./gen/graphql";
import type { Instant } from "../format/format";
import { request } from "./request";
import { toApiError } from "./error";
import { ONCE_MS, whileSeen } from "./whileSeen";

interface Connection<N> {
  edges: { node: N }[];
  pageInfo: { endCursor: string | null; hasNextPage: boolean };
}

export interface Pages<N> {
  /** Null until the first answer. */
  rows: N[] | null;
  error: unknown;
  hasMore: boolean;
  loading: boolean;
  /** When the first page was answered, by the local clock. */
  asOf: Instant;
  more: () => void;
  refresh: () => void;
}

interface Options {
  size?: number;
  /** Asks again this often while only the first page is shown. */
  every?: number;
}

/** A list that is read page by page, anew whenever the variables change. */
export function useConnection<TResult, TVariables extends Record<string, unknown>, N>(
  document: TypedDocumentString<TResult, TVariables & { first: number; after: string | null }>,
  variables: TVariables,
  pick: (result: TResult) => Connection<N>,
  { size = 50, every = ONCE_MS }: Options = {},
): Pages<N> {
  const [rows, setRows] = useState<N[] | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [cursor, setCursor] = useState<string | null>(null);
  const [asOf, setAsOf] = useState(0);
  const [round, setRound] = useState(0);
  const [loading, setLoading] = useState(true);
  const key = JSON.stringify(variables);
  const latest = useRef({ variables, pick });
  latest.current = { variables, pick };
  const asked = useRef("");
  /** Ends with the first page that is shown: what follows it does not follow another. */
  const asking = useRef(new AbortController());
  /** How many pages beyond the first were asked for. A first page that is read again would take them away. */
  const beyond = useRef(0);

  useEffect(() => {
    const abort = new AbortController();
    asking.current = abort;
    beyond.current = 0;
    if (asked.current !== key) {
      // Another list, not the same one again.
      setRows(null);
      setError(null);
    }
    asked.current = key;
    setLoading(true);
    const ask = async (): Promise<void> => {
      if (beyond.current > 0) return;
      try {
        const { edges, pageInfo } = latest.current.pick(
          await request(document, { ...latest.current.variables, first: size, after: null }, abort.signal),
        );
        if (beyond.current > 0) return;
        setRows(edges.map((edge) => edge.node));
        setCursor(pageInfo.hasNextPage ? pageInfo.endCursor : null);
        setAsOf(Date.now());
        setError(null);
      } catch (cause) {
        if (abort.signal.aborted) return;
        if (toApiError(cause).code === "FORBIDDEN") stop(); // It stays so, and each question is one more denial in the audit.
        setError(cause);
      }
      setLoading(false);
    };
    const stop = whileSeen(every, ask, 0);
    return () => {
      stop();
      abort.abort();
    };
  }, [document, key, size, every, round]);

  const more = useCallback(() => {
    if (cursor === null) return;
    const { signal } = asking.current;
    beyond.current += 1;
    setLoading(true);
    request(document, { ...latest.current.variables, first: size, after: cursor }, signal)
      .then((result) => {
        const { edges, pageInfo } = latest.current.pick(result);
        setRows((old) => [...(old ?? []), ...edges.map((edge) => edge.node)]);
        setCursor(pageInfo.hasNextPage ? pageInfo.endCursor : null);
        setLoading(false);
      })
      .catch((cause: unknown) => {
        if (signal.aborted) return;
        beyond.current -= 1;
        setError(cause);
        setLoading(false);
      });
  }, [document, cursor, size]);

  return { rows, error, hasMore: cursor !== null, loading, asOf, more, refresh: () => setRound((n) => n + 1) };
}
