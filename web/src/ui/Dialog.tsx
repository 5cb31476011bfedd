import { type ReactNode, useEffect, useId, useRef } from "react";
import css from "./Dialog.module.css";

interface DialogProps {
  title: ReactNode;
  children: ReactNode;
  onClose: () => void;
  /** An alert asks about something that cannot be undone. */
  alert?: boolean;
}

/**
 * A modal in the browser's own top layer: it traps focus, closes on Esc and gives focus back to its
 * opener, and needs no injected style, which the content security policy would refuse.
 */
export function Dialog({ title, children, onClose, alert = false }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  useEffect(() => {
    const dialog = ref.current;
    const opener = document.activeElement;
    dialog?.showModal();
    return () => {
      dialog?.close();
      if (opener instanceof HTMLElement) opener.focus();
    };
  }, []);
  return (
    <dialog
      ref={ref}
      className={css.dialog}
      role={alert ? "alertdialog" : undefined}
      aria-labelledby={titleId}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClose={() => {
        // Whatever the page says, the browser closes it when Esc comes a second time; what stays is shown again.
        const dialog = ref.current;
        if (!dialog || dialog.open) return;
        dialog.showModal();
        onClose();
      }}
    >
      <h2 id={titleId} className={css.title}>
        {title}
      </h2>
      {children}
    </dialog>
  );
}
