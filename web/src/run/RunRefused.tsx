import { Link } from "@tanstack/react-router";
import { useViewer } from "../session/viewer";
import type { ApiError } from "../api/error";
import { m } from "../messages";
import { Button } from "../ui/Button";
import { useDocumentStatus } from "../ui/documentStatus";
import { Notice } from "../ui/Page";
import { Problem } from "../page/Problem";

/** Replaces a run that the viewer may not see, or no longer: nothing of the run stays on the page. */
export function RunRefused({ runId, error, retry }: { runId: string; error: ApiError; retry: () => void }) {
  const viewer = useViewer();
  useDocumentStatus(m.run.gone);
  switch (error.code) {
    case "UNAUTHENTICATED":
    case "TOKEN_EXPIRED":
      return (
        <Notice title={m.run.sessionEnded}>
          <Button onClick={() => location.reload()}>{m.run.signInAgain}</Button>
        </Notice>
      );
    case "NOT_FOUND":
      return (
        <Notice title={m.run.gone}>
          <p>{m.run.goneHint(runId, `${viewer.principal} @ ${viewer.tenantId}`)}</p>
          <Link to="/runs">{m.run.toRuns}</Link>
        </Notice>
      );
    case "FORBIDDEN":
      return (
        <Notice title={m.run.forbidden}>
          <p>
            {error.message} <code>{error.code}</code>
          </p>
          {error.whoCould.length > 0 && <p>{m.denied.could(error.whoCould)}</p>}
          <Link to="/runs">{m.run.toRuns}</Link>
        </Notice>
      );
    default:
      return <Problem error={error} retry={retry} />;
  }
}
