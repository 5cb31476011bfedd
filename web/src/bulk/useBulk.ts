import { useCallback, useEffect, useRef, useState } from "react";
import { follow } from "../api/follow";
import {
  type BulkOutcome,
  type BulkProgressFragment,
  type BulkRowFieldsFragment,
  BulkRowsDocument,
  BulkUpdatesDocument,
} from "../api/gen/graphql";
import type { Instant } from "../format/format";
import { instant } from "../api/model";
import { type ApiError, toApiError } from "../api/error";
import { request } from "../api/request";
import type { VerdictState } from "../runstate/store";
import type { BulkResult } from "./results";

const PAGE = 200;

interface Asked {
  id: string;
  outcome: BulkOutcome | null;
  failed: boolean;
}

function asked(id: string, result: BulkResult | undefined): Asked {
  const outcomes = {
    waiting: "WAITING",
    accepted: "ACCEPTED",
    rejected: "REJECTED",
    refused: "REFUSED",
    notSent: "NOT_SENT",
  } as const;
  return {
    id,
    outcome: result === undefined || result === "failed" ? null : outcomes[result],
    failed: result === "failed",
  };
}

/** Reads all rows with one result, page by page; null when the bulk does not exist. Throws ApiError. */
export async function readRows(id: string, result: BulkResult | undefined): Promise<BulkRowFieldsFragment[] | null> {
  const rows: BulkRowFieldsFragment[] = [];
  for (let after: string | null = null; ;) {
    const {
      bulk,
    }: {
      bulk: {
        rows: {
          edges: { node: BulkRowFieldsFragment }[];
          pageInfo: { hasNextPage: boolean; endCursor: string | null };
        };
      } | null;
    } = await request(BulkRowsDocument, {
      ...asked(id, result),
      first: PAGE,
      after,
    });
    if (!bulk) return null;
    rows.push(...bulk.rows.edges.map((edge) => edge.node));
    if (!bulk.rows.pageInfo.hasNextPage) return rows;
    after = bulk.rows.pageInfo.endCursor;
  }
}

/** Replaces the rows that changed; adds and removes none. */
function moveRows(
  held: readonly BulkRowFieldsFragment[],
  moved: readonly BulkRowFieldsFragment[],
): readonly BulkRowFieldsFragment[] {
  if (moved.length === 0) return held;
  const by = new Map(moved.map((row) => [row.no, row]));
  return held.map((row) => by.get(row.no) ?? row);
}

export interface FollowedBulk {
  bulk: BulkProgressFragment | null;
  rows: readonly BulkRowFieldsFragment[] | null;
  hasMore: boolean;
  error: ApiError | null;
  sync: VerdictState;
  asOf: Instant;
  /** When `asOf` arrived, by the local clock. */
  at: number;
  more: () => void;
  refresh: () => void;
}

/** Follows a bulk of the viewer, with its rows of one result. */
export function useBulk(id: string, result: BulkResult | undefined): FollowedBulk {
  const [bulk, setBulk] = useState<BulkProgressFragment | null>(null);
  const [rows, setRows] = useState<readonly BulkRowFieldsFragment[] | null>(null);
  const [cursor, setCursor] = useState<string | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [truth, setTruth] = useState<{ sync: VerdictState; asOf: Instant; at: number }>({
    sync: "LOADING",
    asOf: 0,
    at: 0,
  });
  const [round, setRound] = useState(0);
  const [begun, setBegun] = useState(0);
  /** Aborted when other rows are shown, so that a late page is not added to them. */
  const asking = useRef(new AbortController());
  /** The rows that changed while a page is being read; null while none is. */
  const meanwhile = useRef<BulkRowFieldsFragment[] | null>(null);

  useEffect(() => {
    setBulk(null);
    setError(null);
    const stream = follow(
      BulkUpdatesDocument,
      { id },
      {
        next: ({ bulkUpdates: frame }) => {
          setTruth({ sync: frame.sync, asOf: instant(frame.asOf), at: Date.now() });
          setBulk(frame.bulk);
          if (frame.reset) setBegun((n) => n + 1);
          meanwhile.current?.push(...frame.rows);
          setRows((held) => held && moveRows(held, frame.rows));
        },
        refused: setError,
      },
    );
    return stream.close;
  }, [id]);

  const read = useCallback(
    async (after: string | null) => {
      const { signal } = asking.current;
      const moved: BulkRowFieldsFragment[] = [];
      meanwhile.current = moved;
      try {
        const { bulk } = await request(BulkRowsDocument, { ...asked(id, result), first: PAGE, after }, signal);
        const found = moveRows(bulk?.rows.edges.map((edge) => edge.node) ?? [], moved);
        setRows((held) => (after === null ? found : [...(held ?? []), ...found]));
        setCursor(bulk?.rows.pageInfo.hasNextPage ? bulk.rows.pageInfo.endCursor : null);
      } catch (cause) {
        if (!signal.aborted) setError(toApiError(cause));
      } finally {
        if (meanwhile.current === moved) meanwhile.current = null;
      }
    },
    [id, result],
  );
  useEffect(() => {
    if (begun === 0) return;
    const abort = new AbortController();
    asking.current = abort;
    setRows(null);
    void read(null);
    return () => abort.abort();
  }, [read, begun, round]);
  const more = (): void => {
    if (cursor !== null) void read(cursor);
  };
  return { bulk, rows, hasMore: cursor !== null, error, ...truth, more, refresh: () => setRound((n) => n + 1) };
}
