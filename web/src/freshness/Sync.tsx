import { History, type LucideIcon, Radio, RefreshCw, SearchCheck, TriangleAlert, Unplug } from "lucide-react";
import { useSyncExternalStore } from "react";
import { linkState, onLink, retryNow } from "../api/live";
import { m } from "../messages";
import type { Verdict, VerdictState } from "../runstate/store";
import { Announce } from "../ui/Announce";
import { Button } from "../ui/Button";
import { clockTime, ticking, zoneName } from "../format/format";
import { Time, useZone } from "../ui/Time";
import prose from "../styles/Prose.module.css";
import css from "./Sync.module.css";

const ICONS: Record<VerdictState, LucideIcon> = {
  LOADING: RefreshCw,
  LIVE: Radio,
  VERIFYING: SearchCheck,
  RESYNCING: RefreshCw,
  STALE: TriangleAlert,
  OFFLINE: Unplug,
  PAST: History,
};

/** `everyMs`: there is no stream; the list is read again at this interval. */
type Shown = Pick<Verdict, "state" | "reason" | "asOf" | "lagMs"> & { seq?: number; everyMs?: number };

interface SyncChipProps {
  verdict: Shown;
  now: number;
  /** For a bar without room: the delay and the position are for screen readers and the tooltip. */
  short?: boolean;
}

/** Says in words how true a pane is. A live one is true now; the time of its last frame is in the tooltip. */
export function SyncChip({ verdict, now, short = false }: SyncChipProps) {
  const zone = useZone();
  const { state, reason, asOf, lagMs, seq, everyMs } = verdict;
  const reread = state === "LIVE" && everyMs !== undefined;
  const Icon = reread ? RefreshCw : ICONS[state];
  const detail = short && state !== "OFFLINE" ? prose.hidden : css.detail;
  return (
    <span
      className={css.chip}
      data-state={reread ? undefined : state}
      data-testid="sync"
      data-asof={asOf}
      title={asOf > 0 ? `${m.banner.asOf} ${clockTime(asOf, zone)} ${zoneName(zone)}` : undefined}
    >
      <Icon size={14} aria-hidden="true" />
      {/* Offline and its age are said once, by the banner of the page or by the bar. */}
      {state === "OFFLINE" ? (
        <span className={prose.hidden}>{m.sync.OFFLINE}</span>
      ) : (
        <strong>{reread ? m.banner.reread(ticking(everyMs)) : m.sync[state]}</strong>
      )}
      {state === "STALE" && asOf > 0 && <span>{ticking(now - asOf)}</span>}
      {/* The banner below says why, for the only cause that a browser finds itself. */}
      {state === "STALE" && reason && <span>· {reason}</span>}
      {state === "LIVE" && reason === "BUS_DEGRADED" && <span>· {m.banner.polling}</span>}
      {state === "LIVE" && !reread ? (
        <span className={css.detail}>· {m.banner.asOfNow}</span>
      ) : (
        asOf > 0 && (
          <span className={detail}>
            {state !== "OFFLINE" && "· "}
            {m.banner.asOf} <Time at={asOf} format="clock" /> {zoneName(zone)}
          </span>
        )
      )}
      {state === "LIVE" && lagMs >= 1 && <span className={detail}>· {m.banner.lag(`${Math.round(lagMs)} ms`)}</span>}
      {seq !== undefined && seq > 0 && <span className={detail}>· seq {seq}</span>}
    </span>
  );
}

interface SyncBannerProps {
  verdict: Pick<Verdict, "state" | "reason" | "asOf"> & { seq?: number; headSeq?: number };
  now: number;
}

/**
 * A banner for a page that may not be true: since when, why, and what happens next. A screen reader hears its state,
 * not its clocks.
 */
export function SyncBanner({ verdict, now }: SyncBannerProps) {
  const { state, reason } = verdict;
  return (
    <>
      <Announce text={state === "LIVE" || reason === null ? m.sync[state] : `${m.sync[state]}. ${m.cause[reason]}`} />
      <Banner verdict={verdict} now={now} />
    </>
  );
}

function Banner({ verdict, now }: SyncBannerProps) {
  const { state, reason, asOf, seq, headSeq } = verdict;
  const link = useSyncExternalStore(onLink, linkState);
  if (state === "RESYNCING" && seq !== undefined && headSeq !== undefined) {
    return (
      <div className={css.banner} data-state={state}>
        {m.banner.resyncing(seq, headSeq)} <progress value={seq} max={Math.max(1, headSeq)} />
      </div>
    );
  }
  if (state !== "STALE" && state !== "OFFLINE") return null;
  const Icon = ICONS[state];
  const age = ticking(now - asOf);
  return (
    <div className={css.banner} data-state={state} data-says-offline={state === "OFFLINE" || undefined}>
      <Icon size={16} aria-hidden="true" />
      <p>
        {asOf > 0 && <strong>{state === "OFFLINE" ? m.banner.offline(age) : m.banner.stale(age)} </strong>}
        {reason && m.cause[reason]} {seq !== undefined && seq > 0 && m.banner.lastKnown(seq)}{" "}
        {state === "OFFLINE" && (
          <span className={css.quietly}>
            {link.nextTryAt === null ? m.banner.trying : m.banner.nextTry(ticking(link.nextTryAt - Date.now()))}
          </span>
        )}
      </p>
      {state === "OFFLINE" && <Button onClick={retryNow}>{m.banner.retryNow}</Button>}
    </div>
  );
}
