import css from "./Shell.module.css";

interface ChoiceProps<T extends string> {
  label: string;
  value: T;
  options: readonly (readonly [T, string])[];
  choose: (value: T) => void;
  /** Production: a solid band. */
  band?: boolean;
}

/** A choice of one of a few options. */
export function Choice<T extends string>({ label, value, options, choose, band = false }: ChoiceProps<T>) {
  return (
    <select
      className={css.select}
      data-band={band || undefined}
      aria-label={label}
      title={label}
      value={value}
      onChange={(event) => {
        const next = options.find(([option]) => option === event.target.value);
        if (next) choose(next[0]);
      }}
    >
      {options.map(([option, word]) => (
        <option key={option} value={option}>
          {word}
        </option>
      ))}
    </select>
  );
}
