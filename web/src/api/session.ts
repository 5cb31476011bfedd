// Whether somebody is signed in, as the last answers said: the end of a session is not the end of a page.
import type { ApiError } from "./error";

let ended: ApiError | null = null;
const listeners = new Set<() => void>();

function tell(): void {
  for (const listener of listeners) listener();
}

/** Why nobody is signed in any more; null while somebody is. */
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

/** Tells when a command was refused for want of a right: what is known of the viewer's rights may be old. */
export function onDenied(listener: () => void): () => void {
  denials.add(listener);
  return () => denials.delete(listener);
}

export function tellDenied(): void {
  for (const listener of denials) listener();
}

/** Somebody is signed in again: streams that waited for it begin anew. */
export function restoreSession(): void {
  if (!ended) return;
  ended = null;
  tell();
}
