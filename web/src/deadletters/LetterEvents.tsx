import { LetterEventsDocument, type LetterFieldsFragment } from "../api/gen/graphql";
import { toEvent } from "../api/model";
import { useQuery } from "../api/useQuery";
import { summaryOf } from "../events/summary";
import { m } from "../messages";
import { dlq as dlqWords } from "../messages/deadLetters";
import { Button } from "../ui/Button";
import { Dialog } from "../ui/Dialog";
import prose from "../styles/Prose.module.css";
import css from "../styles/Form.module.css";
import { shortId } from "../format/format";
import { Problem } from "../page/Problem";
import { Skeleton } from "../ui/Page";

/** What a dead letter would have said: the events of the run that it carried, as sentences and as they are stored. */
export function LetterEvents({ letter, onClose }: { letter: LetterFieldsFragment; onClose: () => void }) {
  const { runId, fromSeq, toSeq } = letter;
  const {
    answer: events,
    error,
    again,
  } = useQuery(LetterEventsDocument, { runId, after: fromSeq }, ({ run }) =>
    (run?.events.edges ?? []).map(({ node }) => toEvent(node)).filter((event) => event.runSeq <= toSeq),
  );
  return (
    <Dialog title={dlqWords.lookAt(shortId(runId), toSeq)} onClose={onClose}>
      <div className={css.stack}>
        <p className={css.hint}>{dlqWords.carried}</p>
        {error !== null && <Problem error={error} retry={again} />}
        {!events && error === null && <Skeleton rows={4} label={m.sync.LOADING} />}
        {events?.length === 0 && <p>{dlqWords.nothing}</p>}
        {events && events.length > 0 && (
          <>
            <ol className={css.stack} aria-label={dlqWords.says}>
              {events.map((event) => (
                <li key={event.runSeq} value={event.runSeq}>
                  {summaryOf(event, (stepId) => stepId) || m.events.type(event.eventType)}
                </li>
              ))}
            </ol>
            <details>
              <summary>{dlqWords.payloads}</summary>
              <pre className={`${prose.said} ${css.payload}`} tabIndex={0} aria-label={dlqWords.payloads}>
                {events
                  .map(
                    (event) =>
                      `${event.runSeq} ${event.eventType} ${event.stepId ?? ""}\n${JSON.stringify(event.payload, null, 2)}`,
                  )
                  .join("\n\n")}
              </pre>
            </details>
          </>
        )}
        <div className={css.buttons}>
          <Button kind="primary" onClick={onClose}>
            {m.menu.close}
          </Button>
        </div>
      </div>
    </Dialog>
  );
}
