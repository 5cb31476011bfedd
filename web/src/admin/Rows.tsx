import type { ReactNode } from "react";
import { m } from "../messages";
import css from "../styles/Form.module.css";
import { Button } from "../ui/Button";

interface RowsProps<T> {
  head: string;
  rows: readonly T[];
  /** The name of one row, for its button. */
  rowName: (row: T) => string;
  /** What *Add* adds, and its content. */
  what: string;
  fresh: T;
  change: (rows: T[]) => void;
  children: (row: T, set: (change: Partial<T>) => void) => ReactNode;
}

/** The rows of a list in a document, each with its fields and a way to remove it. */
export function Rows<T>({ head, rows, rowName, what, fresh, change, children }: RowsProps<T>) {
  return (
    <fieldset className={css.group}>
      <legend>{head}</legend>
      {rows.map((row, i) => (
        // A row has no identity but its place: two rows may be equal while one is edited.
        // oxlint-disable-next-line react/no-array-index-key
        <div key={i} className={css.row}>
          {children(row, (fields) => change(rows.map((other, k) => (k === i ? { ...other, ...fields } : other))))}
          <Button
            kind="quiet"
            label={m.admin.remove(rowName(row))}
            onClick={() => change(rows.filter((_, k) => k !== i))}
          >
            ✕
          </Button>
        </div>
      ))}
      <Button onClick={() => change([...rows, fresh])}>{m.admin.add(what)}</Button>
    </fieldset>
  );
}

interface TextProps {
  label: string;
  value: string;
  set: (value: string) => void;
  placeholder?: string;
}

export function TextField({ label, value, set, placeholder }: TextProps) {
  return (
    <label className={css.field}>
      <span>{label}</span>
      <input
        value={value}
        maxLength={256}
        autoComplete="off"
        spellCheck={false}
        placeholder={placeholder}
        onChange={(event) => set(event.target.value)}
      />
    </label>
  );
}

interface NumberProps {
  label: string;
  value: number | null;
  /** Null when the field is empty. */
  set: (value: number | null) => void;
  min?: number;
  max?: number | undefined;
  placeholder?: string | undefined;
}

export function NumberField({ label, value, set, min = 0, max, placeholder }: NumberProps) {
  return (
    <label className={css.field}>
      <span>{label}</span>
      <input
        type="number"
        min={min}
        max={max}
        placeholder={placeholder}
        value={value ?? ""}
        onChange={(event) => set(event.target.value === "" ? null : Number(event.target.value))}
      />
    </label>
  );
}

interface SelectProps<V extends string> {
  label: string;
  value: V;
  options: readonly (readonly [V, string])[];
  set: (value: V) => void;
}

export function SelectField<V extends string>({ label, value, options, set }: SelectProps<V>) {
  return (
    <label className={css.field}>
      <span>{label}</span>
      <select
        value={value}
        onChange={(event) => {
          const chosen = options.find(([option]) => option === event.target.value);
          if (chosen) set(chosen[0]);
        }}
      >
        {options.map(([option, word]) => (
          <option key={option} value={option}>
            {word}
          </option>
        ))}
      </select>
    </label>
  );
}
