import { useCallback, useEffect, useRef, useState } from "react";
import type { TypedDocumentString } from "./gen/graphql";
import type { Instant } from "./model";
import { request } from "./request";
import { whileSeen } from "./whileSeen";

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
  { size = 50, every = 0 }: Options = {},
): Pages<N> {
  const [rows, setRows] = useState<N[] | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [cursor, setCursor] = useState<string | null>(null);
  const [pages, setPages] = useState(1);
  const [asOf, setAsOf] = useState(0);
  const [round, setRound] = useState(0);
  const [loading, setLoading] = useState(true);
  const key = JSON.stringify(variables);
  const latest = useRef({ variables, pick });
  latest.current = { variables, pick };
  const asked = useRef("");
  /** Ends with the first page that is shown: what follows it does not follow another. */
  const asking = useRef(new AbortController());

  useEffect(() => {
    const abort = new AbortController();
    asking.current = abort;
    if (asked.current !== key) setRows(null); // another list, not the same one again
    asked.current = key;
    setLoading(true);
    request(document, { ...latest.current.variables, first: size, after: null }, abort.signal)
      .then((result) => {
        const { edges, pageInfo } = latest.current.pick(result);
        setRows(edges.map((edge) => edge.node));
        setCursor(pageInfo.hasNextPage ? pageInfo.endCursor : null);
        setPages(1);
        setAsOf(Date.now());
        setError(null);
        setLoading(false);
      })
      .catch((cause: unknown) => {
        if (abort.signal.aborted) return;
        setError(cause);
        setLoading(false);
      });
    return () => abort.abort();
  }, [document, key, size, round]);

  useEffect(() => {
    if (every === 0 || pages > 1) return;
    return whileSeen(every, () => setRound((n) => n + 1));
  }, [every, pages]);

  const more = useCallback(() => {
    if (cursor === null) return;
    const { signal } = asking.current;
    setLoading(true);
    request(document, { ...latest.current.variables, first: size, after: cursor }, signal)
      .then((result) => {
        const { edges, pageInfo } = latest.current.pick(result);
        setRows((old) => [...(old ?? []), ...edges.map((edge) => edge.node)]);
        setCursor(pageInfo.hasNextPage ? pageInfo.endCursor : null);
        setPages((n) => n + 1);
        setLoading(false);
      })
      .catch((cause: unknown) => {
        if (signal.aborted) return;
        setError(cause);
        setLoading(false);
      });
  }, [document, cursor, size]);

  return { rows, error, hasMore: cursor !== null, loading, asOf, more, refresh: () => setRound((n) => n + 1) };
}
