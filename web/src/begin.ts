// Sends the first queries of an address while the application is still being loaded.
import { ViewerDocument } from "./api/gen/graphql";
import { prefetch } from "./api/request";
import { prefetchRun } from "./runstate/prefetchRun";

const RUN = /^\/runs\/([^/]+)$/;

export function begin(path: string): void {
  prefetch(ViewerDocument, {});
  const runId = RUN.exec(path)?.[1];
  if (runId === undefined) return;
  prefetchRun(decodeURIComponent(runId));
  // The router imports it too, but later.
  void import("./routes/RunPage");
}
