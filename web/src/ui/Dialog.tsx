import { type ReactNode, useEffect, useId, useRef, useState } from "react";
import { m } from "../messages";
import css from "./Dialog.module.css";

interface DialogProps {
  title: ReactNode;
  children: ReactNode;
  onClose: () => void;
  /** An alert asks about something that cannot be undone. */
  alert?: boolean;
  /** Room for tables and forms of several columns. */
  wide?: boolean;
}

/** The content of all text fields of a dialog. */
function writtenIn(dialog: HTMLDialogElement | null): string {
  const fields =
    dialog?.querySelectorAll<HTMLInputElement | HTMLTextAreaElement>(
      "input:not([type=checkbox], [type=radio]), textarea",
    ) ?? [];
  return Array.from(fields, ({ value }) => value).join("");
}

/** How long after a dialog its opener may go, because the page reads again what the dialog changed. */
const SETTLES_MS = 5_000;

/**
 * Gives the focus back to the opener. When the opener goes with what the dialog changed, the focus goes to the nearest
 * part of the page that is left: from the body, Tab would begin at the top of the page.
 */
function returnFocus(opener: Element | null): void {
  if (!(opener instanceof HTMLElement)) return;
  const around: HTMLElement[] = [];
  for (let at = opener.parentElement; at !== null && at !== document.body; at = at.parentElement) around.push(at);
  const move = (): void => {
    if (opener.isConnected) return;
    changes.disconnect();
    const left = around.find((part) => part.isConnected);
    if (left === undefined || document.activeElement !== document.body) return;
    left.tabIndex = -1;
    left.focus({ preventScroll: true });
  };
  const changes = new MutationObserver(move);
  changes.observe(document.body, { childList: true, subtree: true });
  setTimeout(() => changes.disconnect(), SETTLES_MS);
  opener.focus();
  move();
}

/**
 * A modal in the browser's own top layer: it traps focus, closes on Esc and gives focus back to its
 * opener, and needs no injected style, which the content security policy would refuse.
 */
export function Dialog({ title, children, onClose, alert = false, wide = false }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  const before = useRef("");
  useEffect(() => {
    const dialog = ref.current;
    const opener = document.activeElement;
    before.current = writtenIn(dialog);
    dialog?.showModal();
    return () => {
      dialog?.close();
      returnFocus(opener);
    };
  }, []);
  const [asking, setAsking] = useState(false);
  // The first Esc does not discard typed text: it asks, and moves the focus to the button that discards. The second one
  // does.
  const leave = (): void => {
    const back = ref.current?.querySelector<HTMLButtonElement>("[data-back]");
    if (asking || !back || writtenIn(ref.current) === before.current) {
      onClose();
      return;
    }
    setAsking(true);
    back.focus();
  };
  return (
    <dialog
      ref={ref}
      className={css.dialog}
      data-wide={wide || undefined}
      role={alert ? "alertdialog" : undefined}
      aria-labelledby={titleId}
      onInput={() => setAsking(false)}
      onKeyDown={(event) => {
        if (event.key !== "Escape" || event.defaultPrevented || event.nativeEvent.isComposing) return;
        // Otherwise the browser closes the dialog on the second Esc, and until it is shown again, the page hears keys.
        event.preventDefault();
        leave();
      }}
      onCancel={(event) => {
        event.preventDefault();
        leave();
      }}
      onClose={() => {
        // Browsers close a dialog on the second Esc even when the page cancels it, so it is shown again.
        const dialog = ref.current;
        if (!dialog || dialog.open) return;
        dialog.showModal();
        leave();
      }}
    >
      <h2 id={titleId} className={css.title}>
        {title}
      </h2>
      {children}
      {asking && (
        <p className={css.asking} role="alert">
          {m.page.discard}
        </p>
      )}
    </dialog>
  );
}
