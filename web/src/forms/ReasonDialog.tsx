import { type FormEvent, type ReactNode, useState } from "react";
import { m } from "../messages";
import { Button } from "../ui/Button";
import { Dialog } from "../ui/Dialog";
import css from "../styles/Form.module.css";
import { useSending } from "./useSending";
import { Violations } from "./Violations";
import send from "../styles/Confirm.module.css";

interface ReasonDialogProps {
  title: string;
  /** The effect, in words. */
  children?: ReactNode;
  verb: string;
  /** Asks for a reason, which may be left out when it is `optional`. */
  reason?: "optional" | "required";
  /** What the reason is called, when it is another text. */
  reasonLabel?: string;
  /** A word to type first, for a final action. */
  word?: string;
  danger?: boolean;
  /** False while the fields of `children` cannot be sent. */
  ready?: boolean;
  /** The button that leaves things as they are. */
  back?: string;
  act: (reason: string) => Promise<void>;
  onClose: () => void;
}

/** Asks for a reason before an action outside a run's page, and stays open when the action fails. */
export function ReasonDialog({
  title,
  children,
  verb,
  reason,
  reasonLabel = m.confirm.reason,
  word,
  danger = false,
  ready = true,
  back,
  act,
  onClose,
}: ReasonDialogProps) {
  const [text, setText] = useState("");
  const [typed, setTyped] = useState("");
  const { error, refusal, send: sendOnce } = useSending();
  const complete = ready && (reason !== "required" || text.trim() !== "") && (word === undefined || typed === word);
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (complete) sendOnce(() => act(text.trim()).then(onClose));
  };
  return (
    <Dialog title={title} onClose={onClose} alert={danger}>
      <form className={css.stack} onSubmit={submit}>
        {children}
        {reason && (
          <label className={css.field}>
            <span>
              {reasonLabel} ({reason === "required" ? m.confirm.required : m.confirm.reasonHint})
            </span>
            <input
              value={text}
              maxLength={1000}
              required={reason === "required"}
              onChange={(event) => setText(event.target.value)}
            />
          </label>
        )}
        {word !== undefined && (
          <label className={css.field}>
            <span>{m.confirm.typeToConfirm(word)}</span>
            <input
              value={typed}
              autoComplete="off"
              spellCheck={false}
              onChange={(event) => setTyped(event.target.value)}
            />
          </label>
        )}
        <Violations error={error} />
        <div className={css.buttons}>
          <Button back onClick={onClose}>
            {back ?? m.confirm.back}
          </Button>
          <button
            type="submit"
            className={send.send}
            data-danger={danger || undefined}
            disabled={refusal !== null || !complete}
          >
            {refusal ?? verb}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
