import { EllipsisVertical } from "lucide-react";
import { type KeyboardEvent, useEffect, useId, useRef, useState } from "react";
import css from "./Menu.module.css";

export interface MenuItem {
  word: string;
  act: () => void;
}

const EDGE = 8;

/**
 * A button that opens a menu in the top layer, where nothing cuts it off. Arrow keys walk it; Esc and a click elsewhere
 * close it.
 */
export function Menu({ label, items }: { label: string; items: readonly MenuItem[] }) {
  const id = useId();
  const button = useRef<HTMLButtonElement>(null);
  const list = useRef<HTMLDivElement>(null);
  const [open, setOpen] = useState(false);
  useEffect(() => {
    if (!open) return;
    const at = button.current?.getBoundingClientRect();
    if (!at || !list.current) return;
    const { offsetWidth: width, offsetHeight: height } = list.current;
    list.current.style.left = `${Math.max(EDGE, Math.min(at.right - width, innerWidth - width - EDGE))}px`;
    list.current.style.top = `${at.bottom + height + EDGE > innerHeight ? Math.max(EDGE, at.top - height - 4) : at.bottom + 4}px`;
    list.current.querySelector("button")?.focus();
  }, [open]);
  const walk = (event: KeyboardEvent): void => {
    const all = [...(list.current?.querySelectorAll("button") ?? [])];
    const at = all.findIndex((item) => item === document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    all.at(to % all.length)?.focus();
  };
  return (
    <>
      <button
        ref={button}
        type="button"
        className={css.button}
        popoverTarget={id}
        aria-haspopup="menu"
        aria-expanded={open}
        aria-label={label}
      >
        <EllipsisVertical size={16} aria-hidden="true" />
      </button>
      <div
        ref={list}
        id={id}
        popover="auto"
        role="menu"
        tabIndex={-1}
        aria-label={label}
        className={css.menu}
        onKeyDown={walk}
        onToggle={(event) => setOpen(event.newState === "open")}
      >
        {open &&
          items.map((item) => (
            <button
              key={item.word}
              type="button"
              role="menuitem"
              className={css.item}
              onClick={() => {
                list.current?.hidePopover();
                item.act();
              }}
            >
              {item.word}
            </button>
          ))}
      </div>
    </>
  );
}
