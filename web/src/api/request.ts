import type { TypedDocumentString } from "./gen/graphql";
import { ApiError, toApiError } from "./error";
import { endSession, isSessionEnd, tellRightsChanged } from "./session";

/**
 * The timeout of a request: one minute for the answer, and one millisecond for each 20 bytes of the request, for slow
 * lines.
 */
const ANSWER_MS = 60_000;
const SLOW_LINE = 20;

interface Answer {
  status: number;
  text: string;
}

async function send(body: string, signal?: AbortSignal): Promise<Answer> {
  const late = AbortSignal.timeout(ANSWER_MS + Math.ceil(body.length / SLOW_LINE));
  const response = await fetch("/graphql", {
    method: "POST",
    credentials: "same-origin",
    headers: { "content-type": "application/json", accept: "application/graphql-response+json, application/json" },
    body,
    signal: signal ? AbortSignal.any([signal, late]) : late,
  });
  return { status: response.status, text: await response.text() };
}

const KEPT_MS = 30_000;
const asked = new Map<string, Promise<Answer>>();

function bodyOf<TResult, TVariables>(
  document: TypedDocumentString<TResult, TVariables>,
  variables: TVariables,
): string {
  return JSON.stringify({ query: document.toString(), variables });
}

/** Sends a query ahead of time. The next `request` with the same document and variables takes its answer, once. */
export function prefetch<TResult, TVariables>(
  document: TypedDocumentString<TResult, TVariables>,
  variables: TVariables,
): void {
  const body = bodyOf(document, variables);
  if (asked.has(body)) return;
  const answer = send(body);
  asked.set(body, answer);
  const forget = (): void => void (asked.get(body) === answer && asked.delete(body));
  // A later request needs a newer answer, or its own error.
  answer.then(() => setTimeout(forget, KEPT_MS), forget);
}

/**
 * Sends a query or a mutation; it has no cache. The session cookie is the only credential.
 * Throws ApiError. Its code is `NETWORK` when no answer arrived within a minute (later for long requests).
 */
export async function request<TResult, TVariables>(
  document: TypedDocumentString<TResult, TVariables>,
  variables: TVariables,
  signal?: AbortSignal,
): Promise<TResult> {
  const sent = bodyOf(document, variables);
  const begun = asked.get(sent);
  asked.delete(sent);
  let answer: Answer;
  try {
    answer = await (begun ?? send(sent, signal));
    signal?.throwIfAborted();
  } catch (cause) {
    if (signal?.aborted) throw cause;
    throw new ApiError("dvt did not answer.", { code: "NETWORK" });
  }
  const body = parsed(answer.text);
  if (typeof body !== "object" || body === null || Array.isArray(body))
    throw new ApiError(`dvt answered with HTTP ${answer.status}.`, { code: "NETWORK" });
  const { errors, data } = body as { errors?: unknown; data?: unknown };
  if (Array.isArray(errors) && errors.length > 0) {
    const error = toApiError(errors);
    if (isSessionEnd(error)) endSession(error);
    if (error.code === "FORBIDDEN" && /^\s*mutation/.test(String(document))) tellRightsChanged();
    throw error;
  }
  // The generated type is the contract; the server's tests check it.
  return data as TResult;
}

/**
 * Sends a document that a person wrote, and returns the unchanged answer with its errors. Throws ApiError when no answer
 * arrived.
 */
export async function answerTo(
  query: string,
  variables: Record<string, unknown>,
  signal?: AbortSignal,
): Promise<string> {
  try {
    const { text } = await send(JSON.stringify({ query, variables }), signal);
    const { errors } = (parsed(text) ?? {}) as { errors?: unknown };
    const error = Array.isArray(errors) && errors.length > 0 ? toApiError(errors) : null;
    if (error && isSessionEnd(error)) endSession(error);
    return text;
  } catch (cause) {
    if (signal?.aborted) throw cause;
    throw new ApiError("dvt did not answer.", { code: "NETWORK" });
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
