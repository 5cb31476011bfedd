import { useEffect, useState } from "react";
import type { TypedDocumentString } from "./gen/graphql";
import type { Instant } from "../format/format";
import { type ApiError, toApiError } from "./error";
import { request } from "./request";
import { ONCE_MS, whileSeen } from "./whileSeen";

interface Held<T> {
  /** What was asked, as text. */
  of: string;
  answer: T | undefined;
  error: ApiError | null;
  /** When it was answered, by the local clock. */
  asOf: Instant;
}

export interface Asked<T> extends Omit<Held<T>, "of"> {
  /** The newest answer, whatever was asked for. */
  last: T | undefined;
  /** Asks anew: what was asked before is no answer any more. */
  again: () => void;
}

interface Options<T> {
  /** Asks again this often while the page is in sight. */
  every?: number;
  /** Asks so long after a change only, as when it is typed. */
  after?: number;
  /** Asks again when it changes. */
  when?: unknown;
  /** Where an answer that does not change is kept for whoever mounts next. That there is none may change. */
  kept?: { now?: Held<T> };
}

/** The answer to a query, asked for anew as its variables change; while they are null nothing is asked. No late answer takes the place of a newer one. */
export function useAsked<TResult, TVariables, T>(
  document: TypedDocumentString<TResult, TVariables>,
  variables: TVariables | null,
  pick: (result: TResult) => T,
  { every = ONCE_MS, after = 0, when, kept = {} }: Options<T> = {},
): Asked<T> {
  const [held, setHeld] = useState<Held<T>>({ of: "", answer: undefined, error: null, asOf: 0 });
  const [round, setRound] = useState(0);
  const of = variables && JSON.stringify([variables, when]);
  useEffect(() => {
    if (of === null || kept.now?.of === of) return;
    const abort = new AbortController();
    const ask = (): Promise<void> =>
      // What was made into text a moment ago.
      request(document, (JSON.parse(of) as [TVariables])[0], abort.signal).then(
        (result) => {
          const now = { of, answer: pick(result), error: null, asOf: Date.now() };
          if (now.answer !== null) kept.now = now;
          setHeld(now);
        },
        (cause: unknown) => {
          if (abort.signal.aborted) return;
          const error = toApiError(cause);
          if (error.code === "FORBIDDEN") stop(); // It stays so, and each question is one more denial in the audit.
          setHeld((old) => ({ ...(old.of === of ? old : { of, answer: undefined, asOf: 0 }), error }));
        },
      );
    const stop = whileSeen(every, ask, after);
    return () => {
      stop();
      abort.abort();
    };
    // What is asked for is all that is read.
    // oxlint-disable-next-line react/exhaustive-deps
  }, [of, every, round]);
  const { answer, error, asOf } = [held, kept.now].find((known) => known?.of === of) ?? {
    answer: undefined,
    error: null,
    asOf: 0,
  };
  const again = (): void => {
    setHeld((old) => ({ ...old, error: null }));
    setRound((n) => n + 1);
  };
  return { answer, error, asOf, last: held.answer, again };
}

/** A hook for what does not change once it is known. An answer that does not come is no error of the page. */
export function readOnce<TResult, TVariables, T>(
  document: TypedDocumentString<TResult, TVariables>,
  pick: (result: TResult) => T,
) {
  const kept = {};
  return (variables: TVariables | null): T | undefined => useAsked(document, variables, pick, { kept }).answer;
}
