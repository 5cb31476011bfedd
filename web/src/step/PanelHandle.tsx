import { type KeyboardEvent, type PointerEvent, useCallback, useState } from "react";
import { m } from "../messages";
import css from "./PanelHandle.module.css";
import { LEAST, MOST, readShare, STEP, USUAL, within, writeShare } from "./panelShare";

/** The width of the open step in percent of the page; the browser remembers it. */
export function usePanelShare(): [number, (share: number) => void] {
  const [share, setShare] = useState(readShare);
  const change = useCallback((to: number) => {
    setShare(within(to));
    writeShare(to);
  }, []);
  return [share, change];
}

interface PanelHandleProps {
  share: number;
  change: (share: number) => void;
}

/** The handle between the run and its open step: arrow keys or the pointer move it, a double click resets it. */
export function PanelHandle({ share, change }: PanelHandleProps) {
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.metaKey || event.ctrlKey || event.altKey) return;
    const to = { ArrowLeft: share + STEP, ArrowRight: share - STEP, Home: LEAST, End: MOST, Enter: USUAL }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    change(to);
  };
  const onPointerMove = (event: PointerEvent<HTMLElement>): void => {
    const page = event.currentTarget.parentElement?.getBoundingClientRect();
    if (page && event.currentTarget.hasPointerCapture(event.pointerId))
      change(((page.right - event.clientX) / page.width) * 100);
  };
  return (
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-element-interactions -- a separator that is focusable is a widget
    <div
      className={css.handle}
      role="separator"
      aria-orientation="vertical"
      aria-label={m.step.width}
      aria-valuenow={share}
      aria-valuemin={LEAST}
      aria-valuemax={MOST}
      // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- as above
      tabIndex={0}
      onKeyDown={onKeyDown}
      onPointerDown={(event) => event.currentTarget.setPointerCapture(event.pointerId)}
      onPointerMove={onPointerMove}
      onDoubleClick={() => change(USUAL)}
    />
  );
}
