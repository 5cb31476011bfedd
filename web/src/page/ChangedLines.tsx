import css from "../styles/Form.module.css";

/** The lines of a change: the old ones, then the new ones. */
export function ChangedLines({ lines }: { lines: readonly string[] }) {
  return (
    <ul className={css.changes}>
      {lines.map((line) => (
        <li key={line}>{line.startsWith("- ") ? <del>{line}</del> : <ins>{line}</ins>}</li>
      ))}
    </ul>
  );
}
