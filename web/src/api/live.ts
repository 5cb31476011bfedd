// Subscriptions: one websocket for the tab, or Server-Sent Events when the network refuses websockets.
import { createClient as createSseClient, NetworkError } from "graphql-sse";
import { createClient } from "graphql-ws";
import type { TypedDocumentString } from "./gen/graphql";
import { ApiError, toApiError } from "./error";

export type Link = "connecting" | "open" | "closed";
export interface LinkState {
  link: Link;
  /** When the next attempt starts, by the local clock, while closed. */
  nextTryAt: number | null;
}

export interface Sink<T> {
  next: (value: T) => void;
  /** The stream has ended; nothing follows. The caller decides whether to start another. */
  end: (error: ApiError) => void;
}

const REFUSALS_BEFORE_SSE = 3;
const PONG_WAIT_MS = 5_000;

let state: LinkState = { link: "connecting", nextTryAt: null };
let refusals = 0;
let overSse = false;
let skipWait: (() => void) | null = null;
const listeners = new Set<() => void>();

function setLink(link: Link, nextTryAt: number | null = null): void {
  state = { link, nextTryAt };
  for (const listener of listeners) listener();
}

export function linkState(): LinkState {
  return state;
}

export function onLink(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Ends the wait before the next attempt to connect. */
export function retryNow(): void {
  skipWait?.();
}

/**
 * Doubles from 0.3 s to 10 s, half of it random, so that clients do not all reconnect to a restarted server at once.
 */
function backoffMs(attempt: number, random = Math.random()): number {
  const ceiling = Math.min(10_000, 300 * 2 ** Math.min(attempt, 10));
  return ceiling / 2 + (ceiling / 2) * random;
}

export function wait(attempt: number): Promise<void> {
  const ms = backoffMs(attempt);
  setLink("closed", Date.now() + ms);
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      removeEventListener("online", done);
      if (skipWait === done) skipWait = null;
      resolve();
    };
    const timer = setTimeout(done, ms);
    addEventListener("online", done);
    skipWait = done;
  });
}

const FATAL_CLOSES = new Set([4400, 4401, 4403]);

function closeCode(cause: unknown): number | null {
  return typeof cause === "object" && cause !== null && "code" in cause && typeof cause.code === "number"
    ? cause.code
    : null;
}

let pongTimer: ReturnType<typeof setTimeout> | undefined;
let acknowledged = false;

const client = createClient({
  url: () => `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/graphql`,
  connectionParams: {},
  connectionAckWaitTimeout: 10_000,
  lazyCloseTimeout: 2_000,
  retryAttempts: Number.POSITIVE_INFINITY,
  retryWait: wait,
  shouldRetry: (cause) => !overSse && !FATAL_CLOSES.has(closeCode(cause) ?? 0),
  keepAlive: 10_000,
  on: {
    connecting: () => {
      acknowledged = false;
      setLink("connecting");
    },
    connected: () => {
      acknowledged = true;
      refusals = 0;
      setLink("open");
    },
    ping: (received) => {
      if (received) return;
      clearTimeout(pongTimer);
      pongTimer = setTimeout(() => client.terminate(), PONG_WAIT_MS);
    },
    pong: (received) => {
      if (received) clearTimeout(pongTimer);
    },
    closed: () => {
      clearTimeout(pongTimer);
      if (!acknowledged) refusals += 1;
      if (refusals >= REFUSALS_BEFORE_SSE) overSse = true;
      setLink("closed", state.nextTryAt);
    },
  },
});

/**
 * Starts a stream. `variables` is kept, not copied: graphql-ws sends the same object again after a
 * reconnect, so the caller moves `after` forward in it as frames arrive.
 */
export function subscribe<TResult, TVariables extends Record<string, unknown>>(
  document: TypedDocumentString<TResult, TVariables>,
  variables: TVariables,
  sink: Sink<TResult>,
): () => void {
  if (overSse) return subscribeSse(document, variables, sink);
  let stopped = false;
  const stop = client.subscribe<TResult>(
    { query: document.toString(), variables },
    {
      next: (result) => {
        if (stopped) return;
        if (result.errors) sink.end(toApiError(result.errors));
        else if (result.data) sink.next(result.data);
      },
      error: (cause) => {
        if (stopped) return;
        const code = closeCode(cause);
        if (code === 4401) sink.end(new ApiError("Your session has ended.", { code: "UNAUTHENTICATED" }));
        else if (code === 4403) sink.end(new ApiError("You may not watch this.", { code: "FORBIDDEN" }));
        else sink.end(toApiError(code === null ? cause : null));
      },
      complete: () => {
        if (!stopped) sink.end(new ApiError("The stream ended.", { code: "NETWORK" }));
      },
    },
  );
  return () => {
    stopped = true;
    stop();
  };
}

// Each subscription is a request of its own. The client does not retry, because `follow` starts the stream again.
const sse = createSseClient({
  url: "/graphql",
  credentials: "same-origin",
  retryAttempts: 0,
  fetchFn: async (...args: Parameters<typeof fetch>): Promise<Response> => {
    setLink("connecting");
    const response = await fetch(...args);
    if (response.ok) setLink("open");
    return response;
  },
});

function subscribeSse<TResult, TVariables extends Record<string, unknown>>(
  document: TypedDocumentString<TResult, TVariables>,
  variables: TVariables,
  sink: Sink<TResult>,
): () => void {
  let ended = false;
  const end = (error: ApiError): void => {
    if (ended) return;
    ended = true;
    stop();
    sink.end(error);
  };
  const stop = sse.subscribe<TResult>(
    { query: document.toString(), variables },
    {
      next: ({ data, errors }) => {
        if (ended) return;
        if (errors) end(toApiError(errors));
        else if (data) sink.next(data);
      },
      error: (cause) => {
        if (ended) return;
        setLink("closed");
        void errorsOf(cause).then((errors) => end(toApiError(errors)));
      },
      complete: () => {
        if (ended) return;
        setLink("closed");
        end(new ApiError("The stream ended.", { code: "NETWORK" }));
      },
    },
  );
  return () => {
    ended = true;
    stop();
  };
}

/** The GraphQL errors in the body of a response that is not a stream; null when there are none. */
async function errorsOf(cause: unknown): Promise<unknown> {
  const response = cause instanceof NetworkError ? (cause.response as Response | undefined) : undefined;
  const body: unknown = await response?.json().catch(() => null);
  return typeof body === "object" && body !== null && "errors" in body ? body.errors : null;
}
