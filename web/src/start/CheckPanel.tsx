import { m } from "../messages";
import { explainRefusal } from "./words";
import css from "./Start.module.css";
import type { Check } from "./useCheck";

interface CheckPanelProps {
  /** The number of the part of the form. */
  no: number;
  check: Check;
  missing: string | null;
  projectId: string;
  /** The preview is of a rerun: its changes are all steps that run again, not the first ones. */
  rerun?: boolean;
}

/** The server's preview of the start. */
export function CheckPanel({ no, check, missing, projectId, rerun = false }: CheckPanelProps) {
  const { preview, quotas, error, current } = check;
  const starting = quotas.filter((quota) => quota.projectId === null || quota.projectId === projectId);
  return (
    <section className={css.part}>
      <h2>
        {no} {m.start.parts.check}
      </h2>
      <div className={css.check} aria-live="polite" data-testid="start-check" data-outcome={preview?.outcome}>
        {missing !== null ? (
          <p>{missing}</p>
        ) : !current ? (
          <p>{m.start.checking}</p>
        ) : error ? (
          <p className={error.violations.length === 0 ? css.problem : undefined}>
            {error.violations.length === 0 ? (
              <>
                {error.message} <code>{error.code}</code>
              </>
            ) : (
              m.start.correct
            )}
          </p>
        ) : (
          preview && (
            <ul>
              <li>{explainRefusal(preview)}</li>
              {preview.changes.length > 0 && (
                <li>
                  {rerun
                    ? m.start.rerunSteps(preview.changes.length)
                    : (preview.status === "RUNNING" ? m.start.firstSteps : m.start.thenSteps)(
                        preview.changes.length,
                        preview.changes[0]?.stepId ?? "",
                      )}
                </li>
              )}
              {preview.warnings.map((warning) => (
                <li key={warning} className={css.warn}>
                  {warning}
                </li>
              ))}
              {preview.status === "RUNNING" && <li>{m.start.now}</li>}
              {starting.flatMap((quota) =>
                quota.buckets
                  .filter((bucket) => bucket.action === "START_RUN")
                  .map((bucket) => (
                    <li key={quota.projectId ?? ""}>
                      {m.start.quota(
                        quota.projectId ?? m.start.tenant,
                        bucket.tokensRemaining,
                        bucket.perMinute,
                        quota.active,
                        quota.maxActive,
                      )}
                    </li>
                  )),
              )}
            </ul>
          )
        )}
      </div>
    </section>
  );
}
