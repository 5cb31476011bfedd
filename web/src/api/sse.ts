// Subscriptions over Server-Sent Events, when the network refuses websockets.
import { type Client, createClient, NetworkError } from "graphql-sse";
import { ApiError, toApiError } from "./error";
import type { TypedDocumentString } from "./gen/graphql";
import type { Link, Sink } from "./sink";

/** A server that is frozen does not send the comment that comes every 5 s. */
const SILENCE_MS = 12_000;

// Each subscription is a request of its own. The client does not retry, because `follow` starts the stream again.
function clientOf(setLink: (link: Link) => void): Client {
  return createClient({
    url: "/graphql",
    credentials: "same-origin",
    retryAttempts: 0,
    fetchFn: async (url: string, init: RequestInit): Promise<Response> => {
      setLink("connecting");
      const response = await fetchUnlessSilent(url, init);
      if (response.ok) setLink("open");
      return response;
    },
  });
}

/** Sends a request for a stream, and ends it when nothing of its answer has arrived for SILENCE_MS. */
async function fetchUnlessSilent(url: string, init: RequestInit): Promise<Response> {
  const silence = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const heard = (): void => {
    clearTimeout(timer);
    timer = setTimeout(() => silence.abort(), SILENCE_MS);
  };
  const over = (): void => clearTimeout(timer);
  init.signal?.addEventListener("abort", over);
  heard();
  const signal = init.signal ? AbortSignal.any([init.signal, silence.signal]) : silence.signal;
  const response = await fetch(url, { ...init, signal }).catch((cause: unknown) => {
    over();
    throw cause;
  });
  heard();
  if (response.body === null) return response;
  const body = response.body.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform: (chunk, out) => {
        heard();
        out.enqueue(chunk);
      },
      flush: over,
    }),
  );
  return new Response(body, response);
}

export function subscribeSse<TResult, TVariables extends Record<string, unknown>>(
  document: TypedDocumentString<TResult, TVariables>,
  variables: TVariables,
  sink: Sink<TResult>,
  setLink: (link: Link) => void,
): () => void {
  let ended = false;
  const end = (error: ApiError): void => {
    if (ended) return;
    ended = true;
    stop();
    sink.end(error);
  };
  const stop = clientOf(setLink).subscribe<TResult>(
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
