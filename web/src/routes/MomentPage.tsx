import { getRouteApi, Link, redirect } from "@tanstack/react-router";
import { SignalSeqDocument } from "../api/gen/graphql";
import { request } from "../api/request";
import { audit as auditWords } from "../messages/audit";
import { useDocumentStatus } from "../ui/documentStatus";
import { Notice } from "../ui/Page";

const route = getRouteApi("/moment/$runId/$signalId");

/**
 * Leads from an audit record to the run at the moment when the signal took effect. The address names the signal, so
 * that a list of records is links without a request for each; only a signal without effect comes to the page itself.
 */
export async function openMoment(runId: string, signalId: string): Promise<void> {
  const { signal } = await request(SignalSeqDocument, { runId, signalId });
  const at = signal?.appliedSeq ?? signal?.acceptedSeq ?? null;
  if (at !== null) throw redirect({ to: "/runs/$runId", params: { runId }, search: { at }, replace: true });
}

export function MomentPage() {
  const { runId } = route.useParams();
  useDocumentStatus(auditWords.title);
  return (
    <Notice title={auditWords.noMoment} heading>
      <Link to="/runs/$runId" params={{ runId }}>
        {auditWords.toRun}
      </Link>
    </Notice>
  );
}
