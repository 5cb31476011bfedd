// Whether somebody is signed in, by the last answers. The page stays when the session ends.
import type { ApiError } from "./error";

let ended: ApiError | null = null;
const listeners = new Set<() => void>();

function tell(): void {
  for (const listener of listeners) listener();
}

/** The error that ended the session; null while somebody is signed in. */
export function sessionEnd(): ApiError | null {
  return ended;
}

export function onSession(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function isSessionEnd(error: ApiError): boolean {
  return error.code === "UNAUTHENTICATED" || error.code === "TOKEN_EXPIRED";
}

export function endSession(error: ApiError): void {
  if (ended) return;
  ended = error;
  tell();
}

const denials = new Set<() => void>();

/** Calls the listener when a mutation was FORBIDDEN: the known rights of the viewer may be old. */
export function onDenied(listener: () => void): () => void {
  denials.add(listener);
  return () => denials.delete(listener);
}

export function tellDenied(): void {
  for (const listener of denials) listener();
}

/** Somebody is signed in again: streams that waited start again. */
export function restoreSession(): void {
  if (!ended) return;
  ended = null;
  tell();
}
