// The freshness of a page, and the state of the service.

export const sync = {
  LOADING: "Loading",
  PAST: "Past",
  LIVE: "Live",
  VERIFYING: "Verifying",
  RESYNCING: "Resyncing",
  STALE: "Stale",
  OFFLINE: "Offline",
};

export const cause = {
  GAP: "Part of the history did not arrive. dvt is asking for it again.",
  TAIL_LOSS: "The newest part of the history did not arrive. dvt is reading it from the store.",
  PROJECTOR_LAG: "The store is ahead of what is shown. dvt is catching up.",
  BUS_DEGRADED: "The message bus is down. dvt asks the store instead; updates come about a second later.",
  STORE_DOWN: "The store does not answer. dvt keeps asking; nothing new can be known until it does.",
  EPOCH_CHANGED:
    "The store holds another history than the one shown here, as after a restore. dvt is reading it from the beginning.",
  SLOW_CONSUMER: "This browser could not keep up with the updates. dvt is reading the newest state.",
  RECONNECTED: "The connection came back. dvt is comparing this page with the store.",
  BEHIND: "The store has newer events than this page shows. dvt is asking for them again.",
  CONNECTION_LOST: "There is no connection to dvt. The page shows the last state that arrived.",
};

export const banner = {
  polling: "polling the store",
  reread: (every: string) => `Read every ${every}`,
  stale: (age: string) => `Stale for ${age}.`,
  offline: (age: string) => `Offline for ${age}.`,
  lastKnown: (seq: number) => `Last known position: seq ${seq}.`,
  nextTry: (wait: string) => `Next try in ${wait}.`,
  trying: "Trying now…",
  retryNow: "Retry now",
  resyncing: (seq: number, head: number) => `Resyncing: ${seq} of ${head} events.`,
  restored: (seq: number) => `History was restored to seq ${seq}. Nothing of the former history is shown.`,
  asOf: "as of",
  asOfNow: "as of now",
  lag: (age: string) => `lag ${age}`,
};

export const serviceBanner = {
  READ_ONLY: {
    text: "dvt is read-only: no new run starts.",
    still: "Runs in progress continue and take signals. Pages read the store, so they may be a second later.",
  },
  DRAINED: {
    text: "dvt is being drained: no new run starts here.",
    still: "Runs in progress continue to their end and take signals.",
  },
  FROZEN: {
    text: "Your tenant is frozen: no new run starts.",
    still: "Runs in progress continue and take signals; queued runs keep waiting.",
  },
  DEGRADED: {
    text: "The engine does not answer or starts runs too slowly: new ones are refused.",
    still: "Runs in progress continue. dvt tries again every few seconds; this ends by itself.",
  },
  because: (reason: string) => `Reason: ${reason}.`,
  since: "Since",
};
