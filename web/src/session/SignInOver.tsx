import { useEffect, useSyncExternalStore } from "react";
import { ViewerDocument } from "../api/gen/graphql";
import { request } from "../api/request";
import { onSession, restoreSession, sessionEnd } from "../api/session";
import { whileSeen } from "../api/whileSeen";
import { m } from "../messages";
import { Dialog } from "../ui/Dialog";
import { Methods, useMethods } from "./SignIn";

const ASK_MS = 2_000;

/** Whether the page must not be seen: nobody is signed in. */
export function useSessionEnd() {
  return useSyncExternalStore(onSession, sessionEnd);
}

/**
 * Signing in again over the page, which keeps its address and what was typed. The way leads through another
 * window; here it is only watched for somebody being signed in. Another principal gets the page anew.
 */
export function SignInOver({ principal }: { principal: string }) {
  const error = useSessionEnd();
  const ways = useMethods();
  useEffect(() => {
    const ask = (): Promise<void> =>
      request(ViewerDocument, {})
        .then(({ viewer }) => (viewer.principal === principal ? restoreSession() : location.reload()))
        .catch(() => {}); // Not yet: asked again.
    const stop = whileSeen(ASK_MS, ask);
    addEventListener("focus", ask);
    return () => {
      stop();
      removeEventListener("focus", ask);
    };
  }, [principal]);
  return (
    <Dialog title={m.signIn.title} onClose={() => {}}>
      <p role="alert">{error?.code === "TOKEN_EXPIRED" ? m.signIn.expired : m.signIn.ended}</p>
      <Methods {...ways} to="/" newWindow />
    </Dialog>
  );
}
