import { useEffect, useState } from "react";
import type { ActionInput } from "../api/gen/graphql";
import { type ApiError, toApiError } from "../api/error";
import { receipts } from "../receipts/context";
import { newIntent } from "./intent";
import { Intents, type Kept } from "./intents";
import { type Answer, send } from "./send";

/** Errors after which the same intent is repeated; any other error is about the intent itself. */
const UNANSWERED = new Set(["NETWORK", "INTERNAL", "STORE_UNAVAILABLE", "UNAVAILABLE", "RUN_MOVED"]);

export const intents = new Intents(sessionStorage);

export interface Sending {
  kept: Kept;
  change: (draft: Kept["draft"]) => void;
  sending: boolean;
  error: ApiError | null;
  /** The position that the person had read when the action was sent last. */
  reviewed: number;
  /** When the action may be sent again, by the local clock; 0 for now. */
  waitUntil: number;
  clear: () => void;
  submit: (input: ActionInput, reviewed: number) => void;
  /** Forgets the intent. */
  drop: () => void;
}

/** Sends one intent until it is answered. A repetition keeps its signalId; another content gets a new one. */
export function useSend(first: Kept, done: (answer: Answer) => void): Sending {
  const [kept, setKept] = useState(first);
  const [sending, setSending] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const [waitUntil, setWaitUntil] = useState(0);
  const [sentAt, setSentAt] = useState(0);
  useEffect(() => {
    if (waitUntil === 0) return;
    const timer = setTimeout(() => setWaitUntil(0), Math.max(0, waitUntil - Date.now()));
    return () => clearTimeout(timer);
  }, [waitUntil]);
  const keep = (next: Kept): void => {
    setKept(next);
    intents.keep(next);
  };
  const submit = (input: ActionInput, reviewed: number): void => {
    if (sending) return;
    const { action, runId, stepId, logicalAttemptId } = kept.intent;
    const content = JSON.stringify([input, kept.draft]);
    const repeated = kept.sent === null || kept.sent === content;
    const next = {
      ...kept,
      sent: content,
      intent: repeated ? kept.intent : newIntent(action, runId, stepId, logicalAttemptId),
    };
    const sent = input.rerun ? { rerun: { ...input.rerun, runRequestId: next.intent.signalId } } : input;
    keep(next);
    setSending(true);
    setSentAt(reviewed);
    setError(null);
    send(next.intent, sent, next.draft, reviewed)
      .then((answer) => {
        intents.forget(next.intent);
        if (answer.signal) receipts.receive(answer.signal);
        done(answer);
      })
      .catch((cause: unknown) => {
        const failure = toApiError(cause);
        if (!UNANSWERED.has(failure.code)) keep({ ...next, sent: null });
        setSending(false);
        setError(failure);
        if (failure.retryAfterMs !== null) setWaitUntil(Date.now() + failure.retryAfterMs);
      });
  };
  return {
    kept,
    change: (draft) => keep({ ...kept, draft }),
    sending,
    error,
    reviewed: sentAt,
    waitUntil,
    clear: () => setError(null),
    submit,
    drop: () => intents.forget(kept.intent),
  };
}
