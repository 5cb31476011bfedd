import { useState } from "react";
import { EndBreakGlassDocument } from "../api/gen/graphql";
import { newId } from "../api/newId";
import { request } from "../api/request";
import { tellRightsChanged } from "../api/session";
import { m } from "../messages";
import { recordDone } from "../session/done";
import { Button } from "../ui/Button";
import { useTick } from "../ui/Time";
import { useViewer } from "../session/viewer";
import css from "./Shell.module.css";

interface Held {
  roles: string;
  until: number;
}

/**
 * Below the bar while the viewer holds a role by break-glass: how long it lasts, and the way to give it up. When the
 * time is over it says so until the viewer closes it, because a page that moves by itself gets clicks that were meant
 * for something else.
 */
export function BreakGlassTimer() {
  const { breakGlassUntil, breakGlassRoles } = useViewer();
  const [held, setHeld] = useState<Held | null>(null);
  const until = breakGlassUntil === null ? 0 : Date.parse(breakGlassUntil);
  const left = until - Date.now();
  if (left > 0 && until !== held?.until)
    setHeld({ roles: breakGlassRoles.map((role) => m.role[role]).join(", "), until });
  const [requestId] = useState(() => `ui-${newId()}`);
  const [failed, setFailed] = useState<string | null>(null);
  useTick(1_000, left > 0);
  if (held === null) return null;
  if (left <= 0)
    return (
      <div className={css.timer}>
        <span role="status">{m.breakGlass.over(held.roles)}</span>
        <Button kind="quiet" onClick={() => setHeld(null)}>
          {m.breakGlass.close}
        </Button>
      </div>
    );
  const end = (): void => {
    setFailed(null);
    request(EndBreakGlassDocument, { input: { requestId: `${requestId}-${breakGlassUntil}`.replace(/[^\w.-]/g, "-") } })
      .then(({ endBreakGlass }) => {
        recordDone({
          topic: "break-glass",
          what: m.receipt.endedRole,
          effect: { page: "policy" },
          change: endBreakGlass.change,
        });
        setHeld(null);
        tellRightsChanged();
      })
      .catch((cause: unknown) => setFailed(cause instanceof Error ? cause.message : String(cause)));
  };
  return (
    <div className={css.timer} role="group" aria-label={m.breakGlass.title}>
      <span role="timer" title={m.breakGlass.means}>
        {m.breakGlass.left(held.roles, Math.floor(left / 60_000), Math.floor((left % 60_000) / 1_000))}
      </span>
      <Button kind="quiet" onClick={end}>
        {m.breakGlass.end}
      </Button>
      {failed !== null && <span role="alert">{failed}</span>}
    </div>
  );
}
