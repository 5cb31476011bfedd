import type { TypedDocumentString } from "./gen/graphql";
import { subscribe, wait } from "./live";
import type { ApiError } from "./error";
import { endSession, isSessionEnd, onSession, sessionEnd } from "./session";

/** Codes after which the stream is not started again, because it would be refused again. */
const FINAL = new Set(["NOT_FOUND", "FORBIDDEN", "BAD_USER_INPUT"]);

export interface Follower<T> {
  next: (value: T) => void;
  /** The stream was refused and is not started again. */
  refused: (error: ApiError) => void;
  /** The stream broke and will be started again. Forget a cursor here that the server no longer accepts. */
  broken?: (error: ApiError) => void;
}

export interface Following {
  /** Starts the stream again at once, with the present variables. */
  restart: () => void;
  close: () => void;
}

/**
 * Starts a stream again after every error except a refusal. After the end of a session it waits until somebody has
 * signed in. `variables` is read at each start.
 */
export function follow<TResult, TVariables extends Record<string, unknown>>(
  document: TypedDocumentString<TResult, TVariables>,
  variables: TVariables,
  follower: Follower<TResult>,
): Following {
  let generation = 0;
  let attempt = 0;
  let stop: (() => void) | null = null;
  let stopWaiting: (() => void) | null = null;
  const begin = (): void => {
    generation += 1;
    const mine = generation;
    stop?.();
    stopWaiting?.();
    stop = subscribe(document, variables, {
      next: (value) => {
        if (mine !== generation) return;
        attempt = 0;
        follower.next(value);
      },
      end: (error) => {
        if (mine !== generation) return;
        if (FINAL.has(error.code)) {
          follower.refused(error);
          return;
        }
        if (isSessionEnd(error)) {
          stopWaiting = onSession(() => {
            if (sessionEnd() === null && mine === generation) begin();
          });
          endSession(error);
          return;
        }
        follower.broken?.(error);
        void wait(attempt++).then(() => {
          if (mine === generation) begin();
        });
      },
    });
  };
  begin();
  return {
    restart: begin,
    close: () => {
      generation += 1;
      stop?.();
      stopWaiting?.();
    },
  };
}
