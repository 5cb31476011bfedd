import { useEffect, useRef, useState } from "react";
import { ApiError } from "../api/error";
import { ticking } from "../format/format";
import { m } from "../messages";
import { BreakGlassButton } from "../session/BreakGlass";
import { useViewer } from "../session/viewer";
import css from "../styles/Page.module.css";
import { ErrorCode } from "../ui/ErrorCode";
import { Button } from "../ui/Button";
import { Notice } from "../ui/Page";
import { useTick } from "../ui/Time";

export function Problem({ error, retry }: { error: unknown; retry: () => void }) {
  const api = error instanceof ApiError ? error : null;
  if (api?.code === "FORBIDDEN") return <Forbidden error={api} retry={retry} />;
  return (
    <div className={css.notice} role="alert">
      <p className={css.noticeTitle}>{m.run.failedToLoad}</p>
      <p>
        {api ? api.message : String(error)} {api && <ErrorCode code={api.code} />}
      </p>
      {api?.correlationId && <p>{m.run.correlation(api.correlationId)}</p>}
      <Retry key={api?.correlationId} afterMs={api?.retryAfterMs ?? 0} retry={retry} />
    </div>
  );
}

/** A refusal is no reason to ask again, until the rights of the viewer have changed. */
function Forbidden({ error, retry }: { error: ApiError; retry: () => void }) {
  const { policyVersion, breakGlassRoles } = useViewer();
  const rights = `${policyVersion} ${breakGlassRoles.join(" ")}`;
  const refusedWith = useRef(rights);
  useEffect(() => {
    if (rights === refusedWith.current) return;
    refusedWith.current = rights;
    retry();
  });
  return (
    <Notice title={m.page.forbidden}>
      <p>
        {error.message} <ErrorCode code={error.code} />
      </p>
      {error.whoCould.length > 0 && <p>{m.denied.could(error.whoCould)}</p>}
      <BreakGlassButton lacks={error.action} />
    </Notice>
  );
}

/** Is refused until the server accepts another request. */
function Retry({ afterMs, retry }: { afterMs: number; retry: () => void }) {
  const [from] = useState(() => Date.now() + afterMs);
  const left = Math.max(0, from - Date.now());
  useTick(1_000, left > 0);
  return (
    <Button onClick={retry} refusal={left > 0 ? m.page.tooSoon : null}>
      {left > 0 ? m.page.retryIn(ticking(left)) : m.run.retry}
    </Button>
  );
}
