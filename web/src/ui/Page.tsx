import type { ReactNode } from "react";
import css from "../styles/Page.module.css";

/** Placeholder bars; they appear only when loading takes longer than a blink. */
export function Skeleton({ rows, label }: { rows: number; label: string }) {
  return (
    <div className={css.skeleton} role="status" aria-label={label}>
      {Array.from({ length: rows }, (_, i) => (
        <div key={i} className={css.bar} />
      ))}
    </div>
  );
}

/** Something to read instead of content: why there is none, and what to do. */
export function Notice({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className={css.notice}>
      <p className={css.noticeTitle}>{title}</p>
      {children}
    </div>
  );
}
