// What the banner on every page says about the service itself.
import type { ServiceUpdatesSubscription } from "../api/gen/graphql";
import { m } from "../messages";

export type ServiceState = ServiceUpdatesSubscription["serviceUpdates"];

export interface Notice {
  kind: "READ_ONLY" | "DRAINED" | "FROZEN" | "DEGRADED";
  /** What does not work, then what still does. */
  text: string;
  still: string;
  reason: string | null;
  since: number | null;
}

function notice(kind: Notice["kind"], reason?: string | null, since?: string | null): Notice {
  return { kind, ...m.serviceBanner[kind], reason: reason ?? null, since: since ? Date.parse(since) : null };
}

/** The most severe first; none when all is as ever. */
export function notices(state: ServiceState | null): Notice[] {
  if (!state) return [];
  const out: Notice[] = [];
  if (state.mode !== "NORMAL") out.push(notice(state.mode, state.modeReason, state.modeSince));
  if (state.frozen) out.push(notice("FROZEN", state.frozenReason, state.frozenSince));
  if (state.degraded) out.push(notice("DEGRADED"));
  return out;
}
