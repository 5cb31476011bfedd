// What the address needs is asked for before the application that will show it is here.
import { ViewerDocument } from "./api/gen/graphql";
import { ask } from "./api/request";
import { askRun } from "./runs/opening";

const RUN = /^\/runs\/([^/]+)$/;

export function begin(path: string): void {
  ask(ViewerDocument, {});
  const runId = RUN.exec(path)?.[1];
  if (runId === undefined) return;
  askRun(decodeURIComponent(runId));
  // The router asks for it too, when it knows the address.
  void import("./routes/RunPage");
}
