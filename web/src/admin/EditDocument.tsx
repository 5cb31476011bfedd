import { type FormEvent, useEffect, useId, useRef, useState } from "react";
import { newId } from "../api/newId";
import { ApiError } from "../api/error";
import { m } from "../messages";
import { Button } from "../ui/Button";
import { Dialog } from "../ui/Dialog";
import css from "../styles/Form.module.css";
import { useSending } from "../forms/useSending";
import { showIn, useFirstWrong, Violations, Wrong, wrongProps, wrongWith } from "../forms/Violations";
import { changes } from "./changes";

interface EditDocumentProps {
  title: string;
  /** The present document. */
  before: unknown;
  save: (change: { document: unknown; reason: string; requestId: string }) => Promise<void>;
  onClose: () => void;
}

/** Edits a document as JSON and replaces it as a whole. All violations that the server finds are listed below it. */
export function EditDocument({ title, before, save, onClose }: EditDocumentProps) {
  const [original] = useState(() => JSON.stringify(before, null, 2));
  const [text, setText] = useState(original);
  const [reason, setReason] = useState("");
  const [requestId, setRequestId] = useState(() => `ui-${newId()}`);
  const { error, setError, refusal, send } = useSending();
  const form = useRef<HTMLFormElement>(null);
  const area = useRef<HTMLTextAreaElement>(null);
  const id = useId();
  const wrong = wrongWith(error?.violations ?? [], "reason");
  useFirstWrong(form, error);
  useEffect(() => {
    error?.violations.some(({ path }) => showIn(area.current, path));
  }, [error]);
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (text === original) return;
    let document: unknown;
    try {
      document = JSON.parse(text);
    } catch (cause) {
      setError(
        new ApiError(`${m.start.notJson} ${cause instanceof Error ? cause.message : String(cause)}`, {
          code: "BAD_USER_INPUT",
        }),
      );
      return;
    }
    send(() => save({ document, reason: reason.trim(), requestId }).then(onClose));
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <form ref={form} className={css.stack} onSubmit={submit}>
        <label className={css.field}>
          <span>{m.admin.document}</span>
          <textarea
            ref={area}
            rows={18}
            spellCheck={false}
            value={text}
            onChange={(event) => {
              setText(event.target.value);
              setRequestId(`ui-${newId()}`); // another document needs another request id
            }}
          />
        </label>
        <label className={css.field}>
          <span>
            {m.confirm.reason} ({m.confirm.reasonRequired})
          </span>
          <input
            required
            maxLength={1000}
            value={reason}
            {...wrongProps(id, wrong)}
            onChange={(event) => setReason(event.target.value)}
          />
          <Wrong id={id} text={wrong} />
        </label>
        <Changes before={before} text={text} />
        <Violations error={error} goTo={(path) => showIn(area.current, path)} />
        <div className={css.buttons}>
          <Button back onClick={onClose}>
            {m.confirm.back}
          </Button>
          <Button type="submit" kind="primary" refusal={refusal ?? (text === original ? m.admin.unchanged : null)}>
            {refusal ?? m.admin.save}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

/** The changes so far; nothing while the text is not JSON. */
function Changes({ before, text }: { before: unknown; text: string }) {
  const edited = parsed(text);
  const list = edited === undefined ? [] : changes(before, edited);
  if (list.length === 0) return null;
  return (
    <section aria-label={m.admin.changes(list.length)}>
      <h3>{m.admin.changes(list.length)}</h3>
      <ul className={css.changes}>
        {list.map((change) => (
          <li key={`${change.path} ${change.before ?? ""} ${change.after ?? ""}`}>
            {change.path}: {change.before !== null && <del>{change.before}</del>}
            {change.before !== null && change.after !== null && " → "}
            {change.after !== null && <ins>{change.after}</ins>}
          </li>
        ))}
      </ul>
    </section>
  );
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
