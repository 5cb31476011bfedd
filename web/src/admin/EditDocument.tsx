import { type FormEvent, type ReactNode, useEffect, useId, useRef, useState } from "react";
import { newId } from "../api/newId";
import { ApiError } from "../api/error";
import { m } from "../messages";
import { Button } from "../ui/Button";
import { ChangedLines } from "../page/ChangedLines";
import { Dialog } from "../ui/Dialog";
import css from "../styles/Form.module.css";
import { useSending } from "../forms/useSending";
import { showIn, useFirstWrong, Violations, Wrong, wrongProps, wrongWith } from "../forms/Violations";
import { changes } from "./changes";

/** A form for a document: it shows the document and gives a changed one. */
export type DocumentForm = (props: { document: unknown; change: (document: unknown) => void }) => ReactNode;

/** Asks the server what a document would do, and shows it by `InWords`. */
export type DocumentPreview = (props: { document: unknown }) => ReactNode;

/** The effect of a document, in the words that its version has afterwards. */
export interface Previewed {
  changed: readonly string[];
  warnings: readonly string[];
  /** Why there is nothing to show: the document is not valid yet, or the server does not answer. */
  error: ApiError | null;
}

interface EditDocumentProps {
  title: string;
  /** The present document. */
  before: unknown;
  /** The document to begin with, when it is another than the present one. */
  draft?: unknown;
  draftReason?: string;
  /** The form beside the JSON; null while only JSON can be edited. */
  form?: DocumentForm;
  /** The server's words for a document before it is saved; without it the change is shown as JSON. */
  preview?: DocumentPreview | undefined;
  save: (change: { document: unknown; reason: string; requestId: string }) => Promise<void>;
  onClose: () => void;
}

/**
 * Edits a document by a form or as JSON, and replaces it as a whole. The text is the only state, so that both views
 * show the same. All violations that the server finds are listed below.
 */
export function EditDocument({
  title,
  before,
  draft,
  draftReason = "",
  form: Form,
  preview: Preview,
  save,
  onClose,
}: EditDocumentProps) {
  const [original] = useState(() => JSON.stringify(before, null, 2));
  const [text, setText] = useState(() => (draft === undefined ? original : JSON.stringify(draft, null, 2)));
  const [reason, setReason] = useState(draftReason);
  const [view, setView] = useState<"form" | "json">(Form ? "form" : "json");
  const [requestId, setRequestId] = useState(() => `ui-${newId()}`);
  const { error, setError, refusal, send } = useSending();
  const form = useRef<HTMLFormElement>(null);
  const area = useRef<HTMLTextAreaElement>(null);
  const id = useId();
  const wrong = wrongWith(error?.violations ?? [], "reason");
  const edited = parsed(text);
  const shown = edited === undefined ? "json" : view;
  const changeText = (next: string): void => {
    setText(next);
    setRequestId(`ui-${newId()}`); // another document needs another request id
  };
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
  const effect =
    Preview && edited !== undefined && text !== original ? (
      <section aria-label={m.admin.effect}>
        <h3>{m.admin.effect}</h3>
        <Preview document={edited} />
        <details>
          <summary>{m.admin.asJson}</summary>
          <Changes before={before} after={edited} />
        </details>
      </section>
    ) : (
      <Changes before={before} after={edited} />
    );
  return (
    <Dialog title={title} onClose={onClose} wide={Form !== undefined}>
      <form ref={form} className={css.stack} onSubmit={submit}>
        {/* People mostly save a draft unchanged, so its effect stands before the fields. */}
        {draft !== undefined && effect}
        {Form && (
          <div className={css.row} role="group" aria-label={m.admin.view}>
            {(["form", "json"] as const).map((name) => (
              <Button
                key={name}
                pressed={shown === name}
                refusal={name === "form" && edited === undefined ? m.admin.notJsonNow : null}
                onClick={() => setView(name)}
              >
                {m.admin.views[name]}
              </Button>
            ))}
          </div>
        )}
        {Form && shown === "form" ? (
          <Form document={edited} change={(document) => changeText(JSON.stringify(document, null, 2))} />
        ) : (
          <label className={css.field}>
            <span>{m.admin.document}</span>
            <textarea
              ref={area}
              rows={18}
              spellCheck={false}
              value={text}
              onChange={(event) => changeText(event.target.value)}
            />
          </label>
        )}
        <label className={css.field}>
          <span>{m.admin.reason}</span>
          <input
            required
            maxLength={1000}
            value={reason}
            {...wrongProps(id, wrong)}
            onChange={(event) => setReason(event.target.value)}
          />
          <Wrong id={id} text={wrong} />
        </label>
        {draft === undefined && effect}
        <Violations
          error={error}
          goTo={(path) => {
            if (area.current) return showIn(area.current, path);
            setView("json");
            setTimeout(() => showIn(area.current, path));
            return true;
          }}
        />
        <div className={css.buttons}>
          <Button back onClick={onClose}>
            {m.admin.cancel}
          </Button>
          <Button type="submit" kind="primary" refusal={refusal ?? (text === original ? m.admin.unchanged : null)}>
            {refusal ?? m.admin.save}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

/** A change as the history will name it, with what people should know before they make it. */
export function InWords({ changed, warnings, error }: Previewed) {
  return (
    <>
      {error && <p className={css.hint}>{m.admin.noEffect(error.message)}</p>}
      {!error && changed.length > 0 && <ChangedLines lines={changed} />}
      {warnings.length > 0 && (
        <ul className={css.warnings} aria-label={m.admin.warnings}>
          {warnings.map((warning) => (
            <li key={warning}>⚠ {warning}</li>
          ))}
        </ul>
      )}
    </>
  );
}

/** What one document changes in another; nothing while the text of one is not JSON. */
export function Changes({ before, after }: { before: unknown; after: unknown }) {
  const list = after === undefined ? [] : changes(before, after);
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
