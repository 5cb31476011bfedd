// What the address needs is asked for before the application that will show it is here.
import { ViewerDocument } from "./api/gen/graphql";
import { prefetch } from "./api/request";
import { prefetchRun } from "./runstate/prefetchRun";

const RUN = /^\/runs\/([^/]+)$/;

export function begin(path: string): void {
  prefetch(ViewerDocument, {});
  const runId = RUN.exec(path)?.[1];
  if (runId === undefined) return;
  prefetchRun(decodeURIComponent(runId));
  // The router asks for it too, when it knows the address.
  void import("./routes/RunPage");
}
