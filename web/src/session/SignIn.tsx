import { ApiError } from "../api/error";
import { useSyncExternalStore } from "react";
import { onSession, sessionEnd } from "../api/session";
import { m } from "../messages";
import { Button } from "../ui/Button";

/** Where the server sends a browser whose sign-in failed: `reason` and `to`. */
export const SIGN_IN = "/signin";

export const SIGNED_IN = "dvt.signedIn";

/** Whether an error means that nobody is signed in. */
export function signedOut(error: unknown): boolean {
  return error instanceof ApiError && (error.code === "UNAUTHENTICATED" || error.code === "TOKEN_EXPIRED");
}

/** Remembers in this tab that somebody is signed in, so that the end of a session is told from a first visit. */
export function rememberSignedIn(): void {
  sessionStorage.setItem(SIGNED_IN, "yes");
}

/** The address to open after the sign-in: always a path of this server. */
export function wanted(address: Location): string {
  if (address.pathname !== SIGN_IN) return address.pathname + address.search;
  const to = new URLSearchParams(address.search).get("to") ?? "/";
  const url = URL.canParse(to, address.origin) ? new URL(to, address.origin) : null;
  return url?.origin === address.origin && url.pathname !== SIGN_IN ? url.pathname + url.search + url.hash : "/";
}

/** Ends the session and opens the sign-in page; says so when that failed. */
export async function signOut(): Promise<void> {
  const response = await fetch("/auth/logout", { method: "POST", credentials: "same-origin" }).catch(() => null);
  if (!response?.ok) {
    alert(m.signIn.stayed);
    return;
  }
  sessionStorage.removeItem(SIGNED_IN);
  location.assign("/");
}

/** Ends the session and opens the sign-in page. */
export function SignOut() {
  return <Button onClick={() => void signOut()}>{m.signIn.out}</Button>;
}

/** The error that ended the session; while there is one, the page must not be seen. */
export function useSessionEnd() {
  return useSyncExternalStore(onSession, sessionEnd);
}
