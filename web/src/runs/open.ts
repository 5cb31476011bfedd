import { follow } from "../api/follow";
import { RunUpdatesDocument, type RunUpdatesSubscriptionVariables } from "../api/gen/graphql";
import { linkState, onLink } from "../api/live";
import type { ApiError } from "../api/request";
import { toFrame } from "./frame";
import { RunStore } from "./store";

const TICK_MS = 250;
const ASLEEP_MS = 30_000;

export interface OpenRun {
  store: RunStore;
  close: () => void;
}

/** Watches one run: feeds its store, judges it four times a second, and doubts it after sleep. */
export function openRun(runId: string, refused: (error: ApiError) => void): OpenRun {
  const store = new RunStore();
  const variables: RunUpdatesSubscriptionVariables = { runId, after: null, storeEpoch: null };
  const keepKey = (): void => {
    variables.after = store.seq >= 0 ? store.seq : null;
    variables.storeEpoch = store.epoch;
  };
  const stream = follow(RunUpdatesDocument, variables, {
    next: ({ runUpdates }) => {
      const effect = store.receive(toFrame(runUpdates));
      keepKey();
      if (effect === "resubscribe") stream.restart();
    },
    refused,
    broken: (error) => {
      if (error.code !== "CURSOR_INVALID") return;
      variables.after = null;
      variables.storeEpoch = null;
    },
  });

  const onLinkChange = (): void => store.link(linkState().link !== "closed" && (linkState().link === "open" || store.seq < 0));
  const stopLink = onLink(onLinkChange);

  let lastTick = Date.now();
  const timer = setInterval(() => {
    const now = Date.now();
    if (now - lastTick > ASLEEP_MS) {
      store.doubt();
      stream.restart();
    }
    lastTick = now;
    if (store.tick() === "resubscribe") stream.restart();
  }, TICK_MS);

  let hiddenAt: number | null = null;
  const onVisibility = (): void => {
    if (document.hidden) {
      hiddenAt = Date.now();
    } else if (hiddenAt !== null && Date.now() - hiddenAt > ASLEEP_MS) {
      hiddenAt = null;
      store.doubt();
      stream.restart();
    }
  };
  document.addEventListener("visibilitychange", onVisibility);

  return {
    store,
    close: () => {
      clearInterval(timer);
      stopLink();
      document.removeEventListener("visibilitychange", onVisibility);
      stream.close();
    },
  };
}
