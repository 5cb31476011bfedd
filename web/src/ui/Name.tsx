import css from "./Name.module.css";

const SHORT = 20;
const END = 10;
const MOST_END = 12;

/** Whether a name is drawn in two parts, so that its parent needs a label. */
export function isInParts(text: string): boolean {
  return endOf(text) < text.length;
}

/** Where the end of a name begins that stays when its start is cut: at words in parentheses, or the last letters. */
export function endOf(text: string): number {
  const remark = text.lastIndexOf(" (");
  if (remark > 0 && text.length - remark <= MOST_END) return remark;
  return text.length > SHORT ? text.length - END : text.length;
}

/**
 * A name that is cut in its middle when there is no room, because long names of one plan differ at their end. The
 * parent must have the name as its label: a screen reader would read the two parts as two words.
 */
export function Name({ text }: { text: string }) {
  if (!isInParts(text)) return text;
  return (
    <span className={css.name}>
      <span className={css.start}>{text.slice(0, endOf(text))}</span>
      <span className={css.end}>{text.slice(endOf(text))}</span>
    </span>
  );
}
