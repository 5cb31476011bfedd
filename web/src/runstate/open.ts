import { follow, type Following } from "../api/follow";
import {
  RunOpeningDocument,
  RunUpdatesDocument,
  type RunUpdatesSubscriptionVariables,
  RunWholeDocument,
} from "../api/gen/graphql";
import { linkState, onLink } from "../api/live";
import { toHeader } from "../api/model";
import type { ApiError } from "../api/error";
import { request } from "../api/request";
import { afterAbsence } from "../api/whileSeen";
import { toFrame, toOpenedStep } from "./frame";
import { prefetchRun } from "./prefetchRun";
import { RunStore } from "./store";

const TICK_MS = 250;
const ASLEEP_MS = 30_000;
/** The longest wait for a drawn frame; a hidden page draws none. */
const PICTURE_MS = 200;

export interface OpenRun {
  store: RunStore;
  close: () => void;
}

/** Resolves when the present state has been drawn. */
function drawn(): Promise<void> {
  return new Promise((resolve) => {
    requestAnimationFrame(() => setTimeout(resolve));
    setTimeout(resolve, PICTURE_MS);
  });
}

/** Reads the header, and when that is drawn, all steps, because 5,000 take a moment. Errors are left to the stream. */
async function fill(store: RunStore, runId: string): Promise<void> {
  prefetchRun(runId);
  const { run: first } = await request(RunOpeningDocument, { runId });
  if (first) store.open(toHeader(first), null);
  await drawn();
  const { run } = await request(RunWholeDocument, { runId });
  if (run) store.open(toHeader(run), run.steps.map(toOpenedStep));
}

/** Watches one run: feeds its store, judges it four times a second, and marks it unproven after sleep. */
export function openRun(runId: string, refused: (error: ApiError) => void): OpenRun {
  const store = new RunStore();
  const variables: RunUpdatesSubscriptionVariables = { runId, after: null, storeEpoch: null };
  let stream: Following | null = null;
  let closed = false;
  const keepKey = (): void => {
    variables.after = store.resumable?.seq ?? null;
    variables.storeEpoch = store.resumable?.epoch ?? null;
  };
  const begin = (): void => {
    if (closed) return;
    keepKey();
    stream = follow(RunUpdatesDocument, variables, {
      next: ({ runUpdates }) => {
        const effect = store.receive(toFrame(runUpdates));
        keepKey();
        if (effect === "resubscribe") stream?.restart();
      },
      refused,
      broken: (error) => {
        if (error.code !== "CURSOR_INVALID") return;
        variables.after = null;
        variables.storeEpoch = null;
      },
    });
  };
  void fill(store, runId).then(begin, begin);

  // Before the first frame, the connection may still be opening.
  const onLinkChange = (): void =>
    store.link(linkState().link !== "closed" && (linkState().link === "open" || store.verdict().asOf === 0));
  const stopLink = onLink(onLinkChange);

  const timer = setInterval(() => {
    if (store.tick() === "resubscribe") stream?.restart();
  }, TICK_MS);
  const stopLooking = afterAbsence(ASLEEP_MS, () => {
    store.doubt();
    stream?.restart();
  });

  return {
    store,
    close: () => {
      clearInterval(timer);
      stopLink();
      stopLooking();
      closed = true;
      stream?.close();
    },
  };
}
