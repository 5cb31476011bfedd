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

interface NoticeProps {
  title: string;
  /** The notice is the whole page, so its title is the heading. */
  heading?: boolean;
  children?: ReactNode;
}

/** A notice in place of content: why there is none, and what to do. */
export function Notice({ title, heading = false, children }: NoticeProps) {
  const Title = heading ? "h1" : "p";
  return (
    <div className={css.notice}>
      <Title className={css.noticeTitle}>{title}</Title>
      {children}
    </div>
  );
}
