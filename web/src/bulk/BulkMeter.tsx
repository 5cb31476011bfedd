import type { BulkProgressFragment } from "../api/gen/graphql";
import { instant } from "../api/model";
import { m } from "../messages";
import { ticking } from "../format/format";
import css from "../styles/Bulk.module.css";
import { failedOf, settled } from "./results";

const STATUSES = ["completed", "failed", "running", "paused", "waiting", "cancelled"] as const;

/** The progress of a bulk, and the limit that slows it down. */
export function BulkMeter({ bulk }: { bulk: BulkProgressFragment }) {
  const { counts, applications, runs } = bulk;
  // A rerun is as good as its new runs: that they exist is not the outcome.
  const parts =
    bulk.action === "RERUN"
      ? {
          applied: runs.completed,
          failed: failedOf(bulk) + runs.failed + runs.cancelled,
          moving: runs.waiting + runs.running + runs.paused,
        }
      : {
          applied: applications.applied + applications.noop,
          failed: failedOf(bulk),
          moving: applications.pending + applications.delivered,
        };
  let x = 0;
  return (
    <div className={css.meter} data-testid="bulk-progress" data-state={bulk.state}>
      <svg height="10" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
        <rect className={css.rest} width="100" height="10" />
        {Object.entries(parts).map(([part, n]) => {
          const width = (n / counts.total) * 100;
          const at = x;
          x += width;
          return <rect key={part} data-part={part} x={at} width={width} height="10" />;
        })}
      </svg>
      <p className={css.words} role="status">
        <strong>{m.bulk.state(bulk.state, settled(bulk), counts.total)}</strong>
        {(["applied", "noop", "delivered", "pending", "notApplied"] as const).map(
          (part) =>
            applications[part] > 0 &&
            bulk.action !== "RERUN" && <span key={part}>{m.bulk.applications[part](applications[part])}</span>,
        )}
        {bulk.leftOut > 0 && <span>{m.bulk.leftOut(bulk.leftOut)}</span>}
        {bulk.state === "PACED" && bulk.pacedCode !== null && (
          <span>
            {m.bulk.paced(
              bulk.pacedCode,
              bulk.pacedUntil === null ? null : ticking(instant(bulk.pacedUntil) - Date.now()),
            )}
          </span>
        )}
      </p>
      {bulk.counts.accepted > 0 && (
        <p className={css.words} data-testid="bulk-runs">
          <strong>{m.bulk.runsNow[bulk.action === "RERUN" ? "made" : "met"]}</strong>
          {STATUSES.map(
            (status) => bulk.runs[status] > 0 && <span key={status}>{m.bulk.runsAre[status](bulk.runs[status])}</span>,
          )}
        </p>
      )}
    </div>
  );
}
