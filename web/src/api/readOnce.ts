import { useEffect, useState } from "react";
import type { TypedDocumentString } from "./gen/graphql";
import { request } from "./request";

/**
 * A hook that asks for what does not change once it is known, and keeps the latest answer for whoever mounts next. It asks
 * for nothing while its variables are null. Undefined while nothing is known: an answer that does not come is no error of the page.
 */
export function readOnce<TResult, TVariables, TAnswer>(document: TypedDocumentString<TResult, TVariables>, answerOf: (result: TResult) => TAnswer) {
  let kept: { of: string; answer: TAnswer } | null = null;
  return function useAnswer(variables: TVariables | null): TAnswer | undefined {
    const of = variables === null ? null : JSON.stringify(variables);
    const [held, setHeld] = useState(kept);
    useEffect(() => {
      if (of === null || kept?.of === of) return;
      const abort = new AbortController();
      request(document, JSON.parse(of) as TVariables, abort.signal)
        .then((result) => {
          kept = { of, answer: answerOf(result) };
          setHeld(kept);
        })
        .catch(() => {});
      return () => abort.abort();
    }, [of]);
    return [held, kept].find((known) => known?.of === of)?.answer;
  };
}
