import { useEffect, useState } from "react";
import { ApiError } from "../api/error";
import { m } from "../messages";
import { ticking } from "../format/format";
import { useTick } from "../ui/Time";

/** Sends the request of a form: one at a time, and after `retryAfterMs` not before that has passed. */
export interface Sending {
  error: ApiError | null;
  setError: (error: ApiError | null) => void;
  /** Why the form cannot be sent now, in the words of its button; null when it can. */
  refusal: string | null;
  /** Does nothing while there is a refusal. Calls `failed` with the error of the server. */
  send: (act: () => Promise<void>, failed?: (error: ApiError) => void) => void;
}

export function useSending(): Sending {
  const [error, setError] = useState<ApiError | null>(null);
  const [sending, setSending] = useState(false);
  const [until, setUntil] = useState(0);
  const left = Math.max(0, until - Date.now());
  useTick(1_000, left > 0);
  useEffect(() => {
    if (until === 0) return;
    const timer = setTimeout(() => setUntil(0), Math.max(0, until - Date.now()));
    return () => clearTimeout(timer);
  }, [until]);
  const refusal = sending ? m.confirm.sending : left > 0 ? m.confirm.wait(ticking(left + 999)) : null;
  const send: Sending["send"] = (act, failed) => {
    if (refusal !== null) return;
    setSending(true);
    setError(null);
    act().then(
      () => setSending(false),
      (cause: unknown) => {
        const failure = cause instanceof ApiError ? cause : new ApiError(String(cause));
        setSending(false);
        setError(failure);
        if (failure.retryAfterMs !== null) setUntil(Date.now() + failure.retryAfterMs);
        failed?.(failure);
      },
    );
  };
  return { error, setError, refusal, send };
}
