import { useId } from "react";
import { m } from "../messages";
import { Button } from "../ui/Button";
import { fromRows, type ParamRow, toRows } from "./params";
import css from "./Start.module.css";

interface ParamsFieldProps {
  text: string;
  change: (text: string) => void;
  /** Shown as JSON, because rows hold only one level. */
  raw: boolean;
  setRaw: (raw: boolean) => void;
  problem: string | null;
}

/** Edits the parameters as rows, or as one JSON object. */
export function ParamsField({ text, change, raw, setRaw, problem }: ParamsFieldProps) {
  const id = useId();
  const rows = toRows(text);
  const write = (next: ParamRow[]): void => change(fromRows(next));
  const asText = raw || rows === null;
  return (
    <section className={css.part}>
      <div className={css.partHead}>
        <h2>3 {m.start.parts.params}</h2>
        <Button
          kind="quiet"
          pressed={asText}
          refusal={rows === null ? m.start.notARow : null}
          onClick={() => setRaw(!raw)}
        >
          JSON
        </Button>
      </div>
      {asText ? (
        <label className={css.field}>
          {m.start.paramsJson}
          <textarea
            className={css.plan}
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
                onChange={(event) => write(rows.with(i, { ...row, value: event.target.value }))}
              />
              <Button kind="quiet" label={m.start.dropParam(row.name)} onClick={() => write(rows.toSpliced(i, 1))}>
                ✕
              </Button>
            </div>
          ))}
          <Button kind="quiet" onClick={() => write([...rows, { name: `param${rows.length + 1}`, value: "" }])}>
            {m.start.addParam}
          </Button>
        </>
      )}
      <p id={id} className={css.problem}>
        {problem}
      </p>
    </section>
  );
}
