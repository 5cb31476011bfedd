import { useEffect, useState } from "react";
import { type ActionInput, PreviewDocument, type PreviewQuery } from "../api/gen/graphql";
import { type ApiError, toApiError } from "../api/error";
import { request } from "../api/request";
import { whileSeen } from "../api/whileSeen";

/** So often a preview that somebody may decide by is asked for again. */
export const OLD_MS = 30_000;
const TYPING_MS = 300;

export type Preview = PreviewQuery["preview"];

export interface Previewed {
  preview: Preview | null;
  /** What was previewed, as text. */
  of: string | null;
  error: ApiError | null;
  again: () => void;
}

/** What would come of it, in one text: two previews with the same one need not be read twice. */
export function effectOf({ outcome, code, status, changes, blocked, warnings }: Preview): string {
  return JSON.stringify([outcome, code, status, changes, blocked, warnings]);
}

/**
 * What the server says an action would do now: asked again when the input changes, when what it concerns moves
 * (`concern`), and each 30 s while the page is in sight. Null `input` asks nothing.
 */
export function usePreview(input: ActionInput | null, concern: string): Previewed {
  const [held, setHeld] = useState<Omit<Previewed, "again">>({ preview: null, of: null, error: null });
  const [round, setRound] = useState(0);
  const of = input === null ? null : JSON.stringify(input);
  const first = held.of === null && held.error === null;
  useEffect(() => {
    if (of === null) return;
    const abort = new AbortController();
    const ask = (): Promise<void> =>
      // What was made into text a moment ago.
      request(PreviewDocument, { action: JSON.parse(of) as ActionInput }, abort.signal).then(
        ({ preview }) => setHeld({ preview, of, error: null }),
        (cause: unknown) => {
          if (!abort.signal.aborted) setHeld({ preview: null, of, error: toApiError(cause) });
        },
      );
    const stop = whileSeen(OLD_MS, ask, first ? 0 : TYPING_MS);
    return () => {
      stop();
      abort.abort();
    };
    // The first answer makes the next ones wait for the end of typing; it is no reason to ask again.
    // oxlint-disable-next-line react/exhaustive-deps
  }, [of, concern, round]);
  return { ...held, again: () => setRound((n) => n + 1) };
}
