import { useId } from "react";
import { m } from "../messages";
import { Button } from "../ui/Button";
import { fromRows, type ParamRow, toRows } from "./params";
import css from "./ParamsEditor.module.css";

interface ParamsEditorProps {
  text: string;
  change: (text: string) => void;
  /** Shown as JSON, because rows hold only one level. */
  raw: boolean;
  /** The name of the field of the JSON. */
  label: string;
  problem: string | null;
}

/** Why the text can only be shown as JSON; null when it can be rows. */
export function onlyJson(text: string): string | null {
  return toRows(text) === null ? m.start.notARow : null;
}

/** Edits parameters as rows, or as one JSON object. It says at the field what is wrong. */
export function ParamsEditor({ text, change, raw, label, problem }: ParamsEditorProps) {
  const id = useId();
  const rows = toRows(text);
  const write = (next: ParamRow[]): void => change(fromRows(next));
  return (
    <>
      {raw || rows === null ? (
        <label className={css.field}>
          {label}
          <textarea
            className={css.json}
            rows={5}
            spellCheck={false}
            value={text}
            aria-invalid={problem !== null || undefined}
            aria-describedby={id}
            onChange={(event) => change(event.target.value)}
          />
        </label>
      ) : (
        <>
          {rows.map((row, i) => (
            // Rows have no identity beside their index.
            // oxlint-disable-next-line react/no-array-index-key
            <div key={i} className={css.param}>
              <input
                aria-label={m.start.paramName(i + 1)}
                placeholder={m.start.name}
                value={row.name}
                maxLength={128}
                onChange={(event) => write(rows.with(i, { ...row, name: event.target.value }))}
              />
              <input
                aria-label={m.start.paramValue(i + 1)}
                placeholder={m.start.value}
                value={row.value}
                aria-describedby={problem === null ? undefined : id}
                onChange={(event) => write(rows.with(i, { ...row, value: event.target.value }))}
              />
              <Button kind="quiet" label={m.start.dropParam(row.name)} onClick={() => write(rows.toSpliced(i, 1))}>
                ✕
              </Button>
            </div>
          ))}
          <p>
            <Button kind="quiet" onClick={() => write([...rows, { name: `param${rows.length + 1}`, value: "" }])}>
              {m.start.addParam}
            </Button>
          </p>
        </>
      )}
      <p id={id} className={css.problem}>
        {problem}
      </p>
    </>
  );
}
