import type { Attempt } from "../api/model";
import { m } from "../messages";
import prose from "../styles/Prose.module.css";
import css from "./StepPanel.module.css";

/** The error of an attempt, in the words of the step. */
export function StepError({ error }: { error: Attempt["error"] }) {
  if (!error) return <p className={css.quiet}>{m.step.noError}</p>;
  return (
    <div className={css.body}>
      <p>
        <code>{error.code}</code> {error.category && <>· {m.step.categories[error.category] ?? error.category} </>}·{" "}
        {error.retryable ? m.run.retryable : m.run.notRetryable}
        {error.source && ` · ${error.source}`}
      </p>
      {error.message && <pre className={prose.said}>{error.message}</pre>}
    </div>
  );
}
