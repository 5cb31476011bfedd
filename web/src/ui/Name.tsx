import css from "./Name.module.css";

const SHORT = 20;
const END = 10;

/** Whether a name is drawn in two parts, so that its parent needs a label. */
export function isInParts(text: string): boolean {
  return text.length > SHORT;
}

/**
 * A name that is cut in its middle when there is no room, because long names of one plan differ at their end. The
 * parent must have the name as its label: a screen reader would read the two parts as two words.
 */
export function Name({ text }: { text: string }) {
  if (!isInParts(text)) return text;
  return (
    <span className={css.name}>
      <span className={css.start}>{text.slice(0, -END)}</span>
      <span className={css.end}>{text.slice(-END)}</span>
    </span>
  );
}
