import { useEffect, useState } from "react";
import { LetterEventsDocument, type LetterFieldsFragment } from "../api/gen/graphql";
import { type RunEvent, toEvent } from "../api/model";
import { request } from "../api/request";
import { m } from "../messages";
import { Button } from "../ui/Button";
import { Dialog } from "../ui/Dialog";
import prose from "../ui/Prose.module.css";
import css from "../ui/Form.module.css";
import { shortId } from "../ui/format";
import { Problem, Skeleton } from "../ui/Page";

/** What a message that was given up was to tell: the events of the run that it stood for. */
export function LetterEvents({ letter, onClose }: { letter: LetterFieldsFragment; onClose: () => void }) {
  const [events, setEvents] = useState<RunEvent[] | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [round, setRound] = useState(0);
  const { runId, fromSeq, toSeq } = letter;
  useEffect(() => {
    const abort = new AbortController();
    setError(null);
    request(LetterEventsDocument, { runId, after: fromSeq }, abort.signal)
      .then(({ run }) => setEvents((run?.events.edges ?? []).map(({ node }) => toEvent(node)).filter((event) => event.runSeq <= toSeq)))
      .catch((cause: unknown) => {
        if (!abort.signal.aborted) setError(cause);
      });
    return () => abort.abort();
  }, [runId, fromSeq, toSeq, round]);
  return (
    <Dialog title={m.dlq.lookAt(shortId(runId), toSeq)} onClose={onClose}>
      <div className={css.stack}>
        <p className={css.hint}>{m.dlq.carried}</p>
        {error !== null && <Problem error={error} retry={() => setRound(round + 1)} />}
        {events === null && error === null && <Skeleton rows={4} label={m.runs.loading} />}
        {events?.length === 0 && <p>{m.dlq.nothing}</p>}
        {events !== null && events.length > 0 && (
          <pre className={`${prose.said} ${css.payload}`} tabIndex={0} aria-label={m.dlq.carried}>
            {events.map((event) => `${event.runSeq} ${event.eventType} ${event.stepId ?? ""}\n${JSON.stringify(event.payload, null, 2)}`).join("\n\n")}
          </pre>
        )}
        <div className={css.buttons}>
          <Button kind="primary" onClick={onClose}>
            {m.confirm.back}
          </Button>
        </div>
      </div>
    </Dialog>
  );
}
