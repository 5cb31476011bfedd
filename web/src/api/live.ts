// Subscriptions: one websocket for the tab, or Server-Sent Events when the network refuses websockets.
import { createClient } from "graphql-ws";
import type { TypedDocumentString } from "./gen/graphql";
import { ApiError, toApiError } from "./error";
import type { Link, Sink } from "./sink";

export type { Sink } from "./sink";

export interface LinkState {
  link: Link;
  /** When the next attempt starts, by the local clock, while closed. */
  nextTryAt: number | null;
}

const REFUSALS_BEFORE_SSE = 3;
/**
 * A server that is frozen closes nothing. It answers no ping, so it is noticed within 10 s.
 */
const PING_MS = 6_000;
const PONG_WAIT_MS = 4_000;
/** From the start of a connection to its acknowledgement. A frozen server accepts connections and answers none. */
const HANDSHAKE_MS = 8_000;

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
let handshakeTimer: ReturnType<typeof setTimeout> | undefined;
let acknowledged = false;
/** A socket of this page worked, so that its network lets sockets pass. */
let worked = false;
/** The handshake under way was given up, because nobody answered it. */
let unanswered = false;

const client = createClient({
  url: () => `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/graphql`,
  connectionParams: {},
  lazyCloseTimeout: 2_000,
  retryAttempts: Number.POSITIVE_INFINITY,
  retryWait: wait,
  shouldRetry: (cause) => !overSse && !FATAL_CLOSES.has(closeCode(cause) ?? 0),
  keepAlive: PING_MS,
  on: {
    connecting: () => {
      acknowledged = false;
      unanswered = false;
      clearTimeout(handshakeTimer);
      handshakeTimer = setTimeout(() => {
        unanswered = true;
        client.terminate();
      }, HANDSHAKE_MS);
      setLink("connecting");
    },
    connected: () => {
      clearTimeout(handshakeTimer);
      acknowledged = true;
      worked = true;
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
      clearTimeout(handshakeTimer);
      if (!acknowledged && !(unanswered && worked)) refusals += 1;
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
  if (overSse) return subscribeOverSse(document, variables, sink);
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

/** Event streams are for networks that refuse sockets, so their code is loaded when it is needed. */
function subscribeOverSse<TResult, TVariables extends Record<string, unknown>>(
  document: TypedDocumentString<TResult, TVariables>,
  variables: TVariables,
  sink: Sink<TResult>,
): () => void {
  let stopped = false;
  let stop: (() => void) | undefined;
  import("./sse").then(
    ({ subscribeSse }) => {
      if (!stopped) stop = subscribeSse(document, variables, sink, setLink);
    },
    (cause: unknown) => {
      if (!stopped) sink.end(toApiError(cause));
    },
  );
  return () => {
    stopped = true;
    stop?.();
  };
}
