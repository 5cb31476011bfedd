import { useEffect, useState } from "react";
import {
  type ActionInput,
  PreviewDocument,
  type PreviewQuery,
  QuotasDocument,
  type QuotasQuery,
} from "../api/gen/graphql";
import { ApiError, toApiError } from "../api/error";
import { request } from "../api/request";
import type { StartAsked } from "./draft";

const TYPING_MS = 500;

export interface Check {
  preview: PreviewQuery["preview"] | null;
  quotas: QuotasQuery["quotas"];
  error: ApiError | null;
  /** The answer is for what the form holds now. */
  current: boolean;
}

/** What the server says of the form as it stands: asked when typing pauses. */
export function useCheck(asked: StartAsked): Check {
  const [held, setHeld] = useState<Omit<Check, "current"> & { of: string | null }>({
    preview: null,
    quotas: [],
    error: null,
    of: null,
  });
  const action: ActionInput | null =
    "start" in asked ? { start: asked.start } : "rerun" in asked ? { rerun: asked.rerun } : null;
  const of = action && JSON.stringify(action);
  useEffect(() => {
    if (of === null) return;
    const abort = new AbortController();
    const timer = setTimeout(() => {
      // What was made into text a moment ago.
      const input = JSON.parse(of) as ActionInput;
      Promise.all([
        request(PreviewDocument, { action: input }, abort.signal),
        request(QuotasDocument, {}, abort.signal),
      ])
        .then(([{ preview }, { quotas }]) => setHeld({ preview, quotas, error: null, of }))
        .catch((cause: unknown) => {
          if (!abort.signal.aborted) setHeld({ preview: null, quotas: [], error: toApiError(cause), of });
        });
    }, TYPING_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [of]);
  return of === held.of && of !== null
    ? { ...held, current: true }
    : { preview: null, quotas: [], error: null, current: false };
}

/** Whether a run would start at once as far as the quotas go: false when it would wait; null when nothing is limited. */
export function startsNow(quotas: QuotasQuery["quotas"], projectId: string): boolean | null {
  const hold = quotas.filter((quota) => quota.projectId === null || quota.projectId === projectId);
  if (hold.length === 0) return null;
  return hold.every(
    (quota) =>
      quota.active < quota.maxActive &&
      quota.queueDepth === 0 &&
      (quota.buckets.find((bucket) => bucket.action === "START_RUN")?.tokensRemaining ?? 1) > 0,
  );
}
