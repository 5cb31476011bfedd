import { RunOpeningDocument, RunWholeDocument } from "../api/gen/graphql";
import { ask } from "../api/request";

/** Asks for what the page of a run opens with. */
export function askRun(runId: string): void {
  ask(RunOpeningDocument, { runId });
  ask(RunWholeDocument, { runId });
}
