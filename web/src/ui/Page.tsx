import type { ReactNode } from "react";
import css from "../styles/Page.module.css";

/** Placeholder bars, which appear when loading takes longer than a moment. */
export function Skeleton({ rows, label }: { rows: number; label: string }) {
  return (
    <div className={css.skeleton} role="status" aria-label={label}>
      {Array.from({ length: rows }, (_, i) => (
        <div key={i} className={css.bar} />
      ))}
    </div>
  );
}

/** A notice in place of content: why there is none, and what to do. */
export function Notice({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className={css.notice}>
      <p className={css.noticeTitle}>{title}</p>
      {children}
    </div>
  );
}
