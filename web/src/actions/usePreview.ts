import { useRef } from "react";
import type { ApiError } from "../api/error";
import { type ActionInput, PreviewDocument, type PreviewQuery } from "../api/gen/graphql";
import { useQuery } from "../api/useQuery";

/** A person may decide by a preview of this age; then it is asked for again. */
export const OLD_MS = 30_000;
const TYPING_MS = 300;

export type Preview = PreviewQuery["preview"];

export interface Previewed {
  preview: Preview | null;
  /** The input that was previewed, as text; null until the first answer. */
  of: string | null;
  error: ApiError | null;
  again: () => void;
}

/** The effect of an action as one text: two previews with the same text need not be read twice. */
export function effectOf({ outcome, code, status, changes, blocked, warnings }: Preview): string {
  return JSON.stringify([outcome, code, status, changes, blocked, warnings]);
}

/**
 * The server's preview of an action. It is asked for again when the input changes, when `concern` changes (the state of
 * the run or step that the action is about), and every 30 s while the page is visible. Null `input` asks nothing.
 */
export function usePreview(input: ActionInput | null, concern: string): Previewed {
  // A person waits for the first answer; later ones wait for a pause in the typing.
  const answered = useRef(false);
  const { answer, error, again } = useQuery(PreviewDocument, input && { action: input }, ({ preview }) => preview, {
    every: OLD_MS,
    after: answered.current ? TYPING_MS : 0,
    refetchOn: concern,
  });
  const preview = error === null ? (answer ?? null) : null;
  const of = input !== null && (preview !== null || error !== null) ? JSON.stringify(input) : null;
  if (of !== null) answered.current = true;
  return { preview, of, error, again };
}
