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

const rightsListeners = new Set<() => void>();

/** Calls the listener when the known rights of the viewer may be old: a mutation was FORBIDDEN, or changed them. */
export function onRightsChanged(listener: () => void): () => void {
  rightsListeners.add(listener);
  return () => rightsListeners.delete(listener);
}

export function tellRightsChanged(): void {
  for (const listener of rightsListeners) listener();
}

/** Somebody is signed in again: streams that waited start again. */
export function restoreSession(): void {
  if (!ended) return;
  ended = null;
  tell();
}
