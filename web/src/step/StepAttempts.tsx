import type { Attempt } from "../api/model";
import { m } from "../messages";
import { attemptName, duration } from "../format/format";
import { stepLook } from "../status/look";
import { StatusIcon } from "../ui/Status";
import { Time } from "../ui/Time";
import pills from "../styles/Pill.module.css";
import css from "./StepPanel.module.css";
import { triesWord } from "./stepWords";

interface AttemptsProps {
  attempts: readonly Attempt[];
  shown: number;
  latest: number;
  choose: (logicalAttemptId: number) => void;
}

/** The attempts of a step. A failure that a later attempt superseded is grey. */
export function Attempts({ attempts, shown, latest, choose }: AttemptsProps) {
  return (
    <div className={pills.pills} role="group" aria-label={m.step.attempts}>
      {attempts.map((attempt) => {
        const id = attempt.logicalAttemptId;
        const look = stepLook({ ...attempt, pendingRetry: false });
        const tries = triesWord(attempt);
        const superseded = id !== latest && attempt.status === "FAILED";
        return (
          <button
            key={id}
            type="button"
            className={`${pills.pill} ${css.attempt}`}
            aria-pressed={id === shown}
            data-superseded={superseded || undefined}
            title={superseded ? m.step.superseded : undefined}
            onClick={() => choose(id)}
          >
            <StatusIcon look={superseded ? { ...look, tone: "skipped" } : look} size={14} />
            {attempt.status === "SKIPPED" ? m.status.skipped : attemptName(id)}
            {attempt.startedAt !== null && (
              <span className={css.quiet}>
                <Time at={attempt.startedAt} format="clock" />
              </span>
            )}
            {attempt.durationMs !== null && <span className={css.quiet}>{duration(attempt.durationMs)}</span>}
            {tries !== null && <span className={css.quiet}>{tries}</span>}
          </button>
        );
      })}
    </div>
  );
}
