import type { ApiError } from "../api/error";
import {
  type ActionInput,
  PreviewDocument,
  type PreviewQuery,
  QuotasDocument,
  type QuotasQuery,
} from "../api/gen/graphql";
import { useQuery } from "../api/useQuery";
import type { StartAsked } from "./draft";

const TYPING_MS = 500;

export interface Check {
  preview: PreviewQuery["preview"] | null;
  quotas: QuotasQuery["quotas"];
  error: ApiError | null;
  /** The answer is for the form as it is now. */
  current: boolean;
}

/** The server's preview of the present form, asked for when typing pauses. */
export function useCheck(asked: StartAsked): Check {
  const action: ActionInput | null =
    "start" in asked ? { start: asked.start } : "rerun" in asked ? { rerun: asked.rerun } : null;
  const preview = useQuery(PreviewDocument, action && { action }, (result) => result.preview, { after: TYPING_MS });
  // Quotas move with each start: they are read again with each preview.
  const quotas = useQuery(QuotasDocument, action && {}, (result) => result.quotas, {
    after: TYPING_MS,
    version: action,
  });
  const error = preview.error ?? quotas.error;
  if (error) return { preview: null, quotas: [], error, current: true };
  return preview.answer && quotas.answer
    ? { preview: preview.answer, quotas: quotas.answer, error: null, current: true }
    : { preview: null, quotas: [], error: null, current: false };
}
