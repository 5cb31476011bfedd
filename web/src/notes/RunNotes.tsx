import { type FormEvent, useState } from "react";
import { AddRunNoteDocument, ChangeRunTagsDocument, RunNotesDocument } from "../api/gen/graphql";
import { instant } from "../api/model";
import { newId } from "../api/newId";
import { request } from "../api/request";
import { useQuery } from "../api/useQuery";
import { useSending } from "../forms/useSending";
import { shortId } from "../format/format";
import { m } from "../messages";
import { Problem } from "../page/Problem";
import { DoneLine } from "../receipts/DoneLine";
import { recordDone } from "../session/done";
import { type May, MayNot, useMay } from "../session/MayNot";
import form from "../styles/Form.module.css";
import { Button } from "../ui/Button";
import { Time } from "../ui/Time";
import css from "./RunNotes.module.css";

const EVERY_MS = 15_000;
const MAX_NOTE = 4_096;

/** The tags and notes of a run, which may also change after the run has ended. */
export function RunNotes({ runId }: { runId: string }) {
  const { answer, error, again } = useQuery(
    RunNotesDocument,
    { runId },
    ({ runTags, runNotes }) => ({ tags: runTags[0]?.tags ?? [], notes: runNotes }),
    { every: EVERY_MS },
  );
  const may = useMay("ANNOTATE");
  return (
    <section className={css.notes}>
      <h2>{m.notes.title}</h2>
      {error !== null && <Problem error={error} retry={again} />}
      {answer && (
        <>
          <Tags key={answer.tags.join(" ")} runId={runId} tags={answer.tags} may={may} saved={again} />
          {answer.notes.length === 0 && <p className={css.quiet}>{m.notes.none}</p>}
          <ol className={css.list}>
            {answer.notes.map((note) => (
              <li key={note.no} className={css.note}>
                <p className={css.quiet}>
                  {m.notes.by(note.author)} · <Time at={instant(note.at)} />
                </p>
                <p className={css.body}>{note.body}</p>
              </li>
            ))}
          </ol>
          <AddNote runId={runId} may={may} saved={again} />
          <MayNot of={may} />
          <DoneLine topic={`notes ${runId}`} />
        </>
      )}
    </section>
  );
}

interface PartProps {
  runId: string;
  may: May;
  saved: () => void;
}

function Tags({ runId, tags, may, saved }: PartProps & { tags: readonly string[] }) {
  const [typed, setTyped] = useState<string | null>(null);
  const sending = useSending();
  if (typed === null) {
    return (
      <p className={css.tags}>
        {tags.length === 0 && <span className={css.quiet}>{m.notes.noTags}</span>}
        {tags.map((tag) => (
          <code key={tag} className={css.tag}>
            {tag}
          </code>
        ))}
        <Button kind="quiet" refusal={may.refusal} saidBy={may.saidBy} onClick={() => setTyped(tags.join(" "))}>
          {m.notes.editTags}
        </Button>
      </p>
    );
  }
  const save = (event: FormEvent): void => {
    event.preventDefault();
    const wanted = typed.split(/\s+/).filter((tag) => tag !== "");
    const input = {
      runId,
      requestId: `ui-${newId()}`,
      add: wanted.filter((tag) => !tags.includes(tag)),
      remove: tags.filter((tag) => !wanted.includes(tag)),
    };
    sending.send(async () => {
      const { changeRunTags } = await request(ChangeRunTagsDocument, { input });
      const what = m.receipt.tagged(shortId(runId));
      recordDone({ topic: `notes ${runId}`, what, run: runId, effect: { run: runId }, change: changeRunTags.change });
      setTyped(null);
      saved();
    });
  };
  return (
    <form className={form.stack} onSubmit={save}>
      <label className={form.field}>
        <span>{m.notes.tags}</span>
        <input value={typed} maxLength={2_000} spellCheck={false} onChange={(event) => setTyped(event.target.value)} />
      </label>
      <p className={css.quiet}>{m.notes.tagsHint}</p>
      {sending.error && <p role="alert">{sending.error.message}</p>}
      <div className={form.buttons}>
        <Button back onClick={() => setTyped(null)}>
          {m.confirm.back}
        </Button>
        <Button kind="primary" type="submit" refusal={sending.refusal}>
          {m.notes.saveTags}
        </Button>
      </div>
    </form>
  );
}

function AddNote({ runId, may, saved }: PartProps) {
  const [body, setBody] = useState("");
  // A repeated attempt is the same request, so that one text is one note.
  const [requestId, setRequestId] = useState(newId);
  const sending = useSending();
  const add = (event: FormEvent): void => {
    event.preventDefault();
    if (body.trim() === "") return;
    sending.send(async () => {
      const { addRunNote } = await request(AddRunNoteDocument, {
        input: { runId, requestId: `ui-${requestId}`, body },
      });
      const what = m.receipt.noted(shortId(runId));
      recordDone({ topic: `notes ${runId}`, what, run: runId, effect: { run: runId }, change: addRunNote.change });
      setBody("");
      setRequestId(newId());
      saved();
    });
  };
  return (
    <form className={form.stack} onSubmit={add}>
      <label className={form.field}>
        <span>{m.notes.body}</span>
        <textarea value={body} rows={3} maxLength={MAX_NOTE} onChange={(event) => setBody(event.target.value)} />
      </label>
      {sending.error && <p role="alert">{sending.error.message}</p>}
      <div className={form.buttons}>
        <Button type="submit" refusal={may.refusal ?? sending.refusal} saidBy={may.saidBy}>
          {m.notes.add}
        </Button>
      </div>
    </form>
  );
}
