import type { ApiError } from "../api/error";
import { m } from "../messages";
import { shortId } from "../format/format";
import css from "../styles/Bulk.module.css";
import type { BulkPreviewed } from "./useBulkPreview";

interface BulkPreviewProps {
  preview: BulkPreviewed | null;
  error: ApiError | null;
  /** Names the missing input without which nothing can be previewed. */
  missing?: string | null;
  rerun?: boolean;
}

/**
 * The number of runs, the preview of the first ones, and the runs that are left out. It keeps its height while it
 * loads.
 */
export function BulkPreview({ preview, error, missing = null, rerun = false }: BulkPreviewProps) {
  return (
    <div className={css.preview} aria-live="polite" data-testid="bulk-preview">
      {error && (
        <p role="alert">
          {error.message} <code>{error.code}</code>
        </p>
      )}
      {missing !== null && <p>{missing}</p>}
      {!preview && !error && missing === null && <p>{m.bulk.counting}</p>}
      {preview && <Counted preview={preview} rerun={rerun} />}
    </div>
  );
}

function Counted({
  preview: { count, samples, refusals, excluded },
  rerun,
}: {
  preview: BulkPreviewed;
  rerun: boolean;
}) {
  const refused = refusals.reduce((sum, reason) => sum + reason.count, 0);
  const counted = new Set(refusals.map(({ code }) => code));
  // A refusal that is counted for all runs is not said once more for the first ones.
  const groups = grouped(
    samples.filter(({ outcome, code }) => outcome === "APPLY" || !counted.has(code ?? "")),
    rerun,
  );
  return (
    <>
      <p>{m.bulk.meant(count)}</p>
      <Reasons head={m.bulk.refusals} reasons={refusals} />
      {groups.length > 0 && (
        <>
          <p>{m.bulk.first(groups.reduce((sum, group) => sum + group.ids.length, 0))}</p>
          <ul className={css.samples}>
            {groups.map(({ key, outcome, text, ids }) => (
              <li key={key} data-outcome={outcome}>
                {ids.length > 1 ? `${m.bulk.runs(ids.length)} ` : ""}
                {ids.map((id) => (
                  <span key={id}>
                    <code>{shortId(id)}</code>{" "}
                  </span>
                ))}
                {text}
              </li>
            ))}
          </ul>
        </>
      )}
      {refused < count && count > samples.length && (
        <p className={css.quiet}>{m.bulk.rest(count - Math.max(samples.length, refused))}</p>
      )}
      <Reasons head={m.bulk.excluded} reasons={excluded} />
    </>
  );
}

interface Group {
  key: string;
  outcome: string;
  text: string;
  ids: string[];
}

/** The samples with the same answer, together. */
function grouped(samples: BulkPreviewed["samples"], rerun: boolean): Group[] {
  const by = new Map<string, Group>();
  for (const { runId, outcome, reason, code, changes } of samples) {
    const steps = (kind: string): number => changes.filter((change) => change.kind === kind).length;
    const text =
      rerun && outcome === "APPLY"
        ? m.bulk.rerun(m.confirm.rerun(steps("RERUN"), steps("REUSE")))
        : [
            `${m.bulk.outcomes[outcome]}${reason ? `: ${reason}` : ""}`,
            outcome !== "APPLY" && code ? `[${code}]` : "",
          ].join(" ");
    const group = by.get(text) ?? { key: text, outcome, text, ids: [] };
    group.ids.push(runId);
    by.set(text, group);
  }
  return [...by.values()];
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
