import { Link } from "@tanstack/react-router";
import { HealthDocument, type LetterFieldsFragment } from "../api/gen/graphql";
import { instant } from "../api/model";
import { useQuery } from "../api/useQuery";
import { dlq as dlqWords } from "../messages/deadLetters";
import css from "../styles/Form.module.css";
import { Time } from "../ui/Time";
import { groupsOf } from "./letterCause";

const EVERY_MS = 10_000;

interface LetterCausesProps {
  letters: readonly LetterFieldsFragment[];
  /** More letters exist than these. */
  more: boolean;
}

/** What went wrong, who misses what, and whether a redrive would succeed now. */
export function LetterCauses({ letters, more }: LetterCausesProps) {
  const { last: bus } = useQuery(
    HealthDocument,
    {},
    ({ health }) => health.checks.find(({ name }) => name === "eventBus") ?? null,
    { every: EVERY_MS },
  );
  const groups = groupsOf(letters);
  const again = groups.every(({ passes }) => passes) ? dlqWords.redriveNow : dlqWords.mendFirst;
  return (
    <section className={css.section} aria-label={dlqWords.why}>
      <ul className={css.stack}>
        {groups.map(({ says, todo, messages, runs, since }) => (
          <li key={says}>
            <strong>{dlqWords.refused(messages, runs, more)}</strong> {dlqWords.since} <Time at={instant(since)} />:{" "}
            {says} {todo}
          </li>
        ))}
      </ul>
      {bus && (
        <p>
          <span className={css.tone} data-tone={bus.status === "HEALTHY" ? "good" : "bad"}>
            {bus.status === "HEALTHY" ? `● ${dlqWords.busWell}` : `✕ ${dlqWords.busDown}`}
          </span>{" "}
          {bus.status === "HEALTHY" ? again : <Link to="/health">{dlqWords.toHealth}</Link>}
        </p>
      )}
      <p className={css.hint}>{dlqWords.lead}</p>
    </section>
  );
}
