// What the server answers when an operation fails.

export interface Violation {
  path: string;
  code: string;
  message: string;
}

/** An error of the server's error table. `code` is `NETWORK` when no answer arrived. */
export class ApiError extends Error {
  readonly code: string;
  readonly correlationId: string | null;
  readonly retryAfterMs: number | null;
  readonly violations: Violation[];
  readonly currentSeq: number | null;
  /** The action that was denied, and who may do it. */
  readonly action: string | null;
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
    const denial = isObject(extensions["denial"]) ? extensions["denial"] : {};
    this.action = typeof denial["action"] === "string" ? denial["action"] : null;
    const who = denial["whoCould"];
    this.whoCould = Array.isArray(who) ? who.filter((name) => typeof name === "string") : [];
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isViolations(value: unknown): value is Violation[] {
  return Array.isArray(value) && value.every((entry) => isObject(entry) && typeof entry["message"] === "string");
}

/** The first error of a GraphQL answer, from any transport. */
export function toApiError(cause: unknown): ApiError {
  if (cause instanceof ApiError) return cause;
  const first: unknown = Array.isArray(cause) ? cause[0] : cause;
  if (isObject(first) && typeof first["message"] === "string" && first["message"] !== "") {
    return new ApiError(first["message"], isObject(first["extensions"]) ? first["extensions"] : {});
  }
  return new ApiError("The connection to dvt was lost.", { code: "NETWORK" });
}
