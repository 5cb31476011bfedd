import { RunOpeningDocument, RunWholeDocument } from "../api/gen/graphql";
import { prefetch } from "../api/request";

/** Asks for what the page of a run opens with. */
export function prefetchRun(runId: string): void {
  prefetch(RunOpeningDocument, { runId });
  prefetch(RunWholeDocument, { runId });
}
