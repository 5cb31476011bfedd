import type { Look } from "./tones";
import prose from "../styles/Prose.module.css";
import css from "./Status.module.css";
import { useFlash } from "./useFlash";

/** A status as icon and word on its tint. */
export function StatusBadge({ look, large = false }: { look: Look; large?: boolean }) {
  const Icon = look.icon;
  const badge = useFlash<HTMLSpanElement>(look.word);
  return (
    <span ref={badge} className={`${prose.flash} ${css.badge} ${large ? css.large : ""}`} data-tone={look.tone}>
      <Icon size={large ? 18 : 14} aria-hidden="true" />
      {look.word}
    </span>
  );
}

/** The icon of a status; the word is for screen readers. */
export function StatusIcon({ look, size = 16 }: { look: Look; size?: number }) {
  const Icon = look.icon;
  return (
    <span className={css.icon} data-tone={look.tone} title={look.word}>
      <Icon size={size} aria-hidden="true" />
      <span className={prose.hidden}>{look.word}</span>
    </span>
  );
}
