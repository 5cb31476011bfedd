import type { TypedDocumentString } from "./gen/graphql";
import { endSession, isSessionEnd, tellDenied } from "./session";

export interface Violation {
  path: string;
  code: string;
  message: string;
}

/** What the server's error table says about a failed operation; `code` is `NETWORK` when no answer came. */
export class ApiError extends Error {
  readonly code: string;
  readonly correlationId: string | null;
  readonly retryAfterMs: number | null;
  readonly violations: Violation[];
  readonly currentSeq: number | null;
  readonly whoCould: string[];

  constructor(message: string, extensions: Record<string, unknown> = {}) {
    super(message);
    this.name = "ApiError";
    this.code = typeof extensions["code"] === "string" ? extensions["code"] : "INTERNAL";
    this.correlationId = typeof extensions["correlationId"] === "string" ? extensions["correlationId"] : null;
    this.retryAfterMs = typeof extensions["retryAfterMs"] === "number" ? extensions["retryAfterMs"] : null;
    this.violations = isViolations(extensions["violations"]) ? extensions["violations"] : [];
    const current = extensions["current"];
    this.currentSeq = isObject(current) && typeof current["runSeq"] === "number" ? current["runSeq"] : null;
    const denial = extensions["denial"];
    const who = isObject(denial) ? denial["whoCould"] : null;
    this.whoCould = Array.isArray(who) ? who.filter((name) => typeof name === "string") : [];
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isViolations(value: unknown): value is Violation[] {
  return Array.isArray(value) && value.every((entry) => isObject(entry) && typeof entry["message"] === "string");
}

/** The first error of a GraphQL answer, whatever shape the transport gave it. */
export function toApiError(cause: unknown): ApiError {
  if (cause instanceof ApiError) return cause;
  const first: unknown = Array.isArray(cause) ? cause[0] : cause;
  if (isObject(first) && typeof first["message"] === "string" && first["message"] !== "") {
    return new ApiError(first["message"], isObject(first["extensions"]) ? first["extensions"] : {});
  }
  return new ApiError("The connection to dvt was lost.", { code: "NETWORK" });
}

/** The longest that an answer is waited for, and besides it what the question's own text may take on a slow line: 20 bytes in each millisecond. */
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

/** Sends a query whose answer will be wanted: the next `request` of the same takes it, and nobody after that. */
export function ask<TResult, TVariables>(
  document: TypedDocumentString<TResult, TVariables>,
  variables: TVariables,
): void {
  const body = bodyOf(document, variables);
  if (asked.has(body)) return;
  const answer = send(body);
  asked.set(body, answer);
  const forget = (): void => void (asked.get(body) === answer && asked.delete(body));
  // Whoever asks later wants a newer answer, or its own error.
  answer.then(() => setTimeout(forget, KEPT_MS), forget);
}

/**
 * Runs a query or a mutation; never from a cache. The session cookie is the only credential.
 * Throws ApiError; its code is `NETWORK` when no answer came, within a minute at the most for all but long texts.
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
  if (!isObject(body)) throw new ApiError(`dvt answered with HTTP ${answer.status}.`, { code: "NETWORK" });
  const errors = body["errors"];
  if (Array.isArray(errors) && errors.length > 0) {
    const error = toApiError(errors);
    if (isSessionEnd(error)) endSession(error);
    if (error.code === "FORBIDDEN" && /^\s*mutation/.test(String(document))) tellDenied();
    throw error;
  }
  // The schema's generated type is the contract; the server's own tests hold it to that.
  return body["data"] as TResult;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
