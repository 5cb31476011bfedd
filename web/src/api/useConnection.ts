import { useCallback, useEffect, useRef, useState } from "react";
import type { Instant } from "../format/format";
import { type ApiError, toApiError } from "./error";
import type { TypedDocumentString } from "./gen/graphql";
import { request } from "./request";
import { useQuery } from "./useQuery";

interface Connection<N> {
  edges: { node: N }[];
  pageInfo: { endCursor: string | null; hasNextPage: boolean };
}

export interface Pages<N, C = unknown> {
  /** Null until the first answer, and after FORBIDDEN: a viewer who lost the right keeps no rows. */
  rows: N[] | null;
  /** The first page as it was answered; null when there is no such list. */
  first: C | null | undefined;
  error: ApiError | null;
  hasMore: boolean;
  loading: boolean;
  /** When the first page was answered, by the local clock. */
  asOf: Instant;
  more: () => void;
  refresh: () => void;
}

interface Options {
  size?: number;
  /** Milliseconds after which the first page is read again, while only that is shown. */
  every?: number;
}

/** The pages after the first, and the first page that they continue. */
interface Rest<N> {
  of: unknown;
  rows: N[];
  cursor: string | null;
  loading: boolean;
  error: ApiError | null;
}

/**
 * A list that is read page by page. Other variables are another list: it begins with its first page. `refresh` reads
 * the first page again and drops the others. While more than one page is shown nothing is repeated, because a new first
 * page would take the others away from the reader.
 */
export function useConnection<
  TResult,
  TVariables extends Record<string, unknown>,
  N,
  C extends Connection<N> = Connection<N>,
>(
  document: TypedDocumentString<TResult, TVariables & { first: number; after: string | null }>,
  variables: TVariables,
  pick: (result: TResult) => (C & Connection<N>) | null,
  { size = 50, every }: Options = {},
): Pages<N, C> {
  const [kept, setRest] = useState<Rest<N> | null>(null);
  const repeats = every !== undefined && kept === null;
  const query = useQuery(
    document,
    { ...variables, first: size, after: null as string | null },
    pick,
    repeats ? { every } : {},
  );
  const first = query.answer;
  const rest = kept !== null && kept.of === first ? kept : null;
  const abort = useRef(new AbortController());
  useEffect(() => {
    const mine = new AbortController();
    abort.current = mine;
    // Pages that continue a former first page are gone with it.
    setRest(null);
    return () => mine.abort();
  }, [first]);
  const cursor = rest ? rest.cursor : nextOf(first);
  const latest = useRef({ variables, pick, query });
  latest.current = { variables, pick, query };
  const more = useCallback(() => {
    if (cursor === null) return;
    const { signal } = abort.current;
    const held: Rest<N> = { of: first, rows: rest?.rows ?? [], cursor, loading: true, error: null };
    latest.current.query.cancel();
    setRest(held);
    request(document, { ...latest.current.variables, first: size, after: cursor }, signal)
      .then((result) => {
        const page = latest.current.pick(result);
        const rows = [...held.rows, ...(page?.edges ?? []).map((edge) => edge.node)];
        setRest({ ...held, rows, cursor: nextOf(page), loading: false });
      })
      .catch((cause: unknown) => {
        if (signal.aborted) return;
        setRest({ ...held, loading: false, error: toApiError(cause) });
      });
  }, [document, cursor, first, rest?.rows, size]);
  const error = rest?.error ?? query.error;
  const readable = first !== undefined && error?.code !== "FORBIDDEN";
  return {
    rows: !readable ? null : [...(first?.edges ?? []).map((edge) => edge.node), ...(rest?.rows ?? [])],
    first,
    error,
    hasMore: readable && cursor !== null,
    loading: rest?.loading === true || query.refetching,
    asOf: query.asOf,
    more,
    refresh: query.again,
  };
}

function nextOf(page: Connection<unknown> | null | undefined): string | null {
  return page?.pageInfo.hasNextPage ? page.pageInfo.endCursor : null;
}
