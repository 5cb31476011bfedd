// The texts of the banner about the service.
import type { ServiceUpdatesSubscription } from "../api/gen/graphql";
import { m } from "../messages";

export type ServiceState = ServiceUpdatesSubscription["serviceUpdates"];

export interface Notice {
  kind: "READ_ONLY" | "DRAINED" | "FROZEN" | "DEGRADED";
  /** What does not work; `still` says what works. */
  text: string;
  still: string;
  reason: string | null;
  since: number | null;
}

function notice(kind: Notice["kind"], reason?: string | null, since?: string | null): Notice {
  return { kind, ...m.serviceBanner[kind], reason: reason ?? null, since: since ? Date.parse(since) : null };
}

/** The notices, the most severe first; none when everything works. */
export function notices(state: ServiceState | null): Notice[] {
  if (!state) return [];
  const out: Notice[] = [];
  if (state.mode !== "NORMAL") out.push(notice(state.mode, state.modeReason, state.modeSince));
  if (state.frozen) out.push(notice("FROZEN", state.frozenReason, state.frozenSince));
  if (state.degraded) out.push(notice("DEGRADED"));
  return out;
}
