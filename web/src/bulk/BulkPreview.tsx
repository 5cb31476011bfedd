import type { ApiError } from "../api/request";
import { m } from "../messages";
import { count as written, shortId } from "../ui/format";
import css from "./Bulk.module.css";
import { type BulkPreviewed, MOST } from "./useBulkPreview";

interface BulkPreviewProps {
  preview: BulkPreviewed | null;
  error: ApiError | null;
}

/** How many runs are meant, and what would happen to the first of them; it keeps its place while it is asked for. */
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
          <p>{preview.count > MOST ? m.bulk.tooMany(written(MOST)) : m.bulk.meant(preview.count)}</p>
          <ul className={css.samples}>
            {preview.samples.map(({ runId, preview: { outcome, reason, code } }) => (
              <li key={runId} data-outcome={outcome}>
                <code>{shortId(runId)}</code> {m.bulk.outcomes[outcome]}
                {reason && `: ${reason}`} {outcome !== "APPLY" && code && <code>{code}</code>}
              </li>
            ))}
          </ul>
          {preview.count > preview.samples.length && <p className={css.quiet}>{m.bulk.rest(preview.count - preview.samples.length)}</p>}
        </>
      )}
    </div>
  );
}
