import { useRef, useState } from "react";
import { type BulkPreviewInput, BulkPreviewDocument, type BulkPreviewQuery } from "../api/gen/graphql";
import { type Query, useQuery } from "../api/useQuery";

const TYPING_MS = 300;

export type BulkPreviewed = NonNullable<BulkPreviewQuery["preview"]["bulk"]>;

/** The server's preview of a bulk: its runs and their outcomes. A null `asked` asks nothing. */
export function useBulkPreview(asked: BulkPreviewInput | null): Query<BulkPreviewed | null> {
  // A person waits for the first answer. Later ones wait for a pause, because steps and parameters are typed.
  const answered = useRef(false);
  const after = answered.current ? TYPING_MS : 0;
  const [when, setWhen] = useState(0);
  const held = useQuery(BulkPreviewDocument, asked && { action: { bulk: asked } }, ({ preview }) => preview.bulk, {
    after,
    version: when,
  });
  if (held.answer !== undefined) answered.current = true;
  // Another version: the former count no longer counts.
  return { ...held, again: () => setWhen(when + 1) };
}
