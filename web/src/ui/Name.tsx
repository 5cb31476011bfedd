import css from "./Name.module.css";

const SHORT = 20;
const END = 10;

/**
 * A name that gives up its middle when it lacks room: long names of one plan differ at their end.
 * What it stands in says the name to screen readers, which would read a long one in two words.
 */
export function Name({ text }: { text: string }) {
  if (text.length <= SHORT) return text;
  return (
    <span className={css.name}>
      <span className={css.start}>{text.slice(0, -END)}</span>
      <span className={css.end}>{text.slice(-END)}</span>
    </span>
  );
}
