import { RunOpeningDocument, RunWholeDocument } from "../api/gen/graphql";
import { prefetch } from "../api/request";

/** Prefetches the queries with which the page of a run opens. */
export function prefetchRun(runId: string): void {
  prefetch(RunOpeningDocument, { runId });
  prefetch(RunWholeDocument, { runId });
}
