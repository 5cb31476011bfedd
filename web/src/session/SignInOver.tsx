import { useEffect } from "react";
import { ViewerDocument } from "../api/gen/graphql";
import { request } from "../api/request";
import { restoreSession } from "../api/session";
import { whileSeen } from "../api/whileSeen";
import { m } from "../messages";
import { Dialog } from "../ui/Dialog";
import { useSessionEnd } from "./SignIn";
import { Methods, useMethods } from "./SignInPage";

const ASK_MS = 2_000;

/**
 * Asks to sign in again over the page, which keeps its address and typed text. The sign-in happens in another window;
 * this component polls until somebody is signed in. For another principal the page is loaded again.
 */
export function SignInOver({ principal }: { principal: string }) {
  const error = useSessionEnd();
  const ways = useMethods();
  useEffect(() => {
    const ask = (): Promise<void> =>
      request(ViewerDocument, {})
        .then(({ viewer }) => (viewer.principal === principal ? restoreSession() : location.reload()))
        .catch(() => {}); // Nobody is signed in yet.
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
