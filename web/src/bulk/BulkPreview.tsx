import type { ApiError } from "../api/error";
import { m } from "../messages";
import { shortId } from "../format/format";
import css from "../styles/Bulk.module.css";
import type { BulkPreviewed } from "./useBulkPreview";

interface BulkPreviewProps {
  preview: BulkPreviewed | null;
  error: ApiError | null;
}

/**
 * The number of runs, the preview of the first ones, and the runs that are left out. It keeps its height while it
 * loads.
 */
export function BulkPreview({ preview, error }: BulkPreviewProps) {
  return (
    <div className={css.preview} aria-live="polite" data-testid="bulk-preview">
      {error && (
        <p role="alert">
          {error.message} <code>{error.code}</code>
        </p>
      )}
      {!preview && !error && <p>{m.bulk.counting}</p>}
      {preview && (
        <>
          <p>{m.bulk.meant(preview.count)}</p>
          <ul className={css.samples}>
            {preview.samples.map(({ runId, outcome, reason, code }) => (
              <li key={runId} data-outcome={outcome}>
                <code>{shortId(runId)}</code> {m.bulk.outcomes[outcome]}
                {reason && `: ${reason}`} {outcome !== "APPLY" && code && <code>{code}</code>}
              </li>
            ))}
          </ul>
          {preview.count > preview.samples.length && (
            <p className={css.quiet}>{m.bulk.rest(preview.count - preview.samples.length)}</p>
          )}
          <Reasons head={m.bulk.refusals} reasons={preview.refusals} />
          <Reasons head={m.bulk.excluded} reasons={preview.excluded} />
        </>
      )}
    </div>
  );
}

function Reasons({ head, reasons }: { head: string; reasons: BulkPreviewed["excluded"] }) {
  if (reasons.length === 0) return null;
  return (
    <>
      <p>{head}</p>
      <ul className={css.samples}>
        {reasons.map(({ code, reason, count }) => (
          <li key={code}>
            {m.bulk.reason(count, reason)} <code>{code}</code>
          </li>
        ))}
      </ul>
    </>
  );
}
