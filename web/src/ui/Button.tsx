import { type ReactNode, type Ref, useId, useRef } from "react";
import css from "./Button.module.css";

interface ButtonProps {
  children: ReactNode;
  onClick?: () => void;
  kind?: "plain" | "primary" | "danger" | "quiet";
  type?: "button" | "submit";
  /** Why the button is refused now. It stays visible and focusable, and says so. */
  refusal?: string | null;
  /** The id of a visible text with the reason; without it the reason is a tooltip. */
  saidBy?: string | undefined;
  pressed?: boolean;
  /** Whether the part that the button opens is shown. */
  expanded?: boolean;
  /** The way back of a dialog: Esc moves the focus here when a field was changed. */
  back?: boolean;
  label?: string;
  /** The key of the button, shown beside its label. */
  shortcut?: string | undefined;
  ref?: Ref<HTMLButtonElement>;
}

export function Button({
  children,
  onClick,
  kind = "plain",
  type = "button",
  refusal = null,
  saidBy,
  pressed,
  expanded,
  back,
  label,
  shortcut,
  ref,
}: ButtonProps) {
  const id = useId();
  const tip = useRef<HTMLSpanElement>(null);
  const off = refusal !== null;
  const keepInSight = (): void => keepInWindow(tip.current);
  return (
    <span className={css.wrap} onPointerEnter={keepInSight} onFocus={keepInSight}>
      <button
        ref={ref}
        type={type}
        className={css.button}
        data-kind={kind}
        data-back={back}
        aria-disabled={off || undefined}
        aria-describedby={off ? (saidBy ?? id) : undefined}
        aria-pressed={pressed}
        aria-expanded={expanded}
        aria-label={label}
        // Says what an icon means to those who see it.
        title={off ? undefined : label}
        aria-keyshortcuts={shortcut}
        onClick={(event) => {
          if (off) event.preventDefault();
          else onClick?.();
        }}
      >
        {children}
        {shortcut && (
          <kbd className={css.key} aria-hidden="true">
            {shortcut}
          </kbd>
        )}
      </button>
      {off && saidBy === undefined && (
        <span ref={tip} id={id} role="tooltip" className={css.tip}>
          {refusal}
        </span>
      )}
    </span>
  );
}

const MARGIN = 8;

/** Moves a tooltip sideways, because a button at the left edge of the window would push it out. */
function keepInWindow(tip: HTMLElement | null): void {
  if (!tip) return;
  tip.style.removeProperty("translate");
  const { left, right } = tip.getBoundingClientRect();
  const most = document.documentElement.clientWidth - MARGIN;
  const shift = left < MARGIN ? MARGIN - left : right > most ? most - right : 0;
  if (shift !== 0) tip.style.setProperty("translate", `${shift}px`);
}
