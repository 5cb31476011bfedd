import { useState } from "react";
import { type BulkPreviewInput, BulkPreviewDocument, type BulkPreviewQuery } from "../api/gen/graphql";
import { type Query, useQuery } from "../api/useQuery";

const TYPING_MS = 300;

export type BulkPreviewed = NonNullable<BulkPreviewQuery["preview"]["bulk"]>;

/** Which runs are meant and what the server knows would happen to them; null `asked` asks nothing. */
export function useBulkPreview(asked: BulkPreviewInput | null): Query<BulkPreviewed | null> {
  // The step of a retry is typed.
  const after = asked?.action.signal?.retryStep ? TYPING_MS : 0;
  const [when, setWhen] = useState(0);
  const held = useQuery(BulkPreviewDocument, asked && { action: { bulk: asked } }, ({ preview }) => preview.bulk, {
    after,
    version: when,
  });
  // Runs that are counted again are not known until then.
  return { ...held, again: () => setWhen(when + 1) };
}
