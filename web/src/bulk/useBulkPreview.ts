import { useEffect, useState } from "react";
import { type BulkPreviewInput, BulkPreviewDocument, type BulkPreviewQuery } from "../api/gen/graphql";
import { type ApiError, request, toApiError } from "../api/request";

const TYPING_MS = 300;

export type BulkPreviewed = NonNullable<BulkPreviewQuery["preview"]["bulk"]>;

interface Held {
  preview: BulkPreviewed | null;
  failed: ApiError | null;
}

/** Which runs are meant and what the server knows would happen to them; null `asked` asks nothing. */
export function useBulkPreview(asked: BulkPreviewInput | null): Held & { again: () => void } {
  const [held, setHeld] = useState<Held>({ preview: null, failed: null });
  const [round, setRound] = useState(0);
  const of = asked === null ? null : JSON.stringify(asked);
  useEffect(() => {
    setHeld({ preview: null, failed: null });
    if (of === null) return;
    const abort = new AbortController();
    // What was made into text a moment ago.
    const bulk = JSON.parse(of) as BulkPreviewInput;
    const timer = setTimeout(
      () => {
        request(BulkPreviewDocument, { action: { bulk } }, abort.signal)
          .then(({ preview }) => setHeld({ preview: preview.bulk, failed: null }))
          .catch((cause: unknown) => {
            if (!abort.signal.aborted) setHeld({ preview: null, failed: toApiError(cause) });
          });
      },
      // The step of a retry is typed.
      bulk.action.signal?.retryStep ? TYPING_MS : 0,
    );
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [of, round]);
  return { ...held, again: () => setRound((n) => n + 1) };
}
