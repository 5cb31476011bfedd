import { Link } from "@tanstack/react-router";
import { type FormEvent, useEffect, useId, useRef, useState } from "react";
import { m } from "../messages";
import { audit as auditWords } from "../messages/audit";
import css from "../styles/Form.module.css";
import { Button } from "../ui/Button";
import { momentOf } from "../runlist/query";
import { useKeys } from "../ui/keys";
import { useNarrow } from "../ui/narrow";
import { suggestedActions } from "./words";

export const AUDIT_OUTCOMES = ["ACCEPTED", "REJECTED", "DENIED"] as const;
const FIELDS = ["actor", "action", "outcome", "run", "request", "from", "to"] as const;

const MOMENTS = ["from", "to"] as const;

/** The filter as it stands in the address. */
export type AuditSearch = Partial<Record<(typeof FIELDS)[number], string | undefined>>;

/** The parts of a filter in words; empty without a filter. */
export function criteria(search: AuditSearch): string {
  return FIELDS.flatMap((field) => {
    const text = search[field];
    if (!text) return [];
    return [auditWords.criteria[field](field === "outcome" ? (auditWords.outcomes[text] ?? text) : text)];
  }).join(", ");
}

/** What auditors ask most, each one click. */
const PRESETS: Readonly<Record<keyof typeof auditWords.preset, AuditSearch>> = {
  refused: { outcome: "DENIED" },
  day: { from: "-24h" },
  policy: { action: "set policy" },
  tokens: { action: "token" },
  breakGlass: { action: "break glass" },
  stops: { action: "emergency stop" },
};

function Presets({ search }: { search: AuditSearch }) {
  const chosen = criteria(search);
  return (
    <nav className={css.row} aria-label={auditWords.presets}>
      {Object.entries(PRESETS).map(([name, preset]) => (
        <Link key={name} to="/audit" search={preset} data-current={criteria(preset) === chosen || undefined}>
          {auditWords.preset[name as keyof typeof auditWords.preset]}
        </Link>
      ))}
    </nav>
  );
}

/** Finds records by parts of names, so that nobody has to type a whole id or the exact name of an action. */
export function AuditFilterForm({ search, find }: { search: AuditSearch; find: (search: AuditSearch) => void }) {
  const form = useRef<HTMLFormElement>(null);
  const actions = useId();
  const [wrong, setWrong] = useState<readonly string[]>([]);
  const shown = JSON.stringify(search);
  // The fields take the values of the address without losing the focus.
  useEffect(() => form.current?.reset(), [shown]);
  useKeys({ "/": { does: auditWords.filter, run: () => form.current?.querySelector("input")?.focus() } });
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const fields = new FormData(event.currentTarget);
    const bad = MOMENTS.filter((name) => {
      const value = fields.get(name);
      return typeof value === "string" && value.trim() !== "" && momentOf(value.trim(), 0, "utc") === null;
    });
    setWrong(bad);
    if (bad[0]) {
      event.currentTarget.querySelector<HTMLInputElement>(`[name=${bad[0]}]`)?.focus();
      return;
    }
    find(
      Object.fromEntries(
        FIELDS.map((name) => {
          const value = fields.get(name);
          return [name, typeof value === "string" && value.trim() !== "" ? value.trim() : undefined];
        }),
      ),
    );
  };
  // A phone shows records first. A filter that is set stays in sight.
  const narrow = useNarrow();
  const [unfolded, setUnfolded] = useState(false);
  if (narrow && !unfolded && criteria(search) === "")
    return (
      <>
        <Presets search={search} />
        <p>
          <Button expanded={false} onClick={() => setUnfolded(true)}>
            {auditWords.filter}…
          </Button>
        </p>
      </>
    );
  return (
    <>
      <Presets search={search} />
      <form ref={form} className={css.row} onSubmit={submit}>
        <Field name="actor" label={auditWords.actor} value={search.actor} />
        <Field name="action" label={auditWords.action} value={search.action} list={actions} />
        <datalist id={actions}>
          {suggestedActions().map(({ value, word }) => (
            <option key={value} value={value}>
              {word}
            </option>
          ))}
        </datalist>
        <label className={css.field}>
          <span>{auditWords.outcome}</span>
          <select key={search.outcome} name="outcome" defaultValue={search.outcome ?? ""}>
            <option value="">{auditWords.any}</option>
            {AUDIT_OUTCOMES.map((outcome) => (
              <option key={outcome} value={outcome}>
                {auditWords.outcomes[outcome]}
              </option>
            ))}
          </select>
        </label>
        <Field name="run" label={auditWords.run} value={search.run} />
        {search.request && <Field name="request" label={auditWords.request} value={search.request} />}
        <Field
          name="from"
          label={auditWords.from}
          value={search.from}
          placeholder={auditWords.moments}
          wrong={wrong.includes("from")}
        />
        <Field
          name="to"
          label={auditWords.to}
          value={search.to}
          placeholder={auditWords.moments}
          wrong={wrong.includes("to")}
        />
        <Button type="submit">{auditWords.find}</Button>
        {criteria(search) !== "" && (
          <Link to="/audit" search={{}} className={css.beside}>
            {m.runs.clearFilter}
          </Link>
        )}
      </form>
    </>
  );
}

interface FieldProps {
  name: string;
  label: string;
  value: string | undefined;
  placeholder?: string;
  list?: string;
  /** The text is no moment. */
  wrong?: boolean;
}

function Field({ name, label, value, wrong = false, ...rest }: FieldProps) {
  const why = useId();
  return (
    <label className={css.field}>
      <span>{label}</span>
      <input
        name={name}
        defaultValue={value ?? ""}
        maxLength={200}
        autoComplete="off"
        spellCheck={false}
        aria-invalid={wrong || undefined}
        aria-describedby={wrong ? why : undefined}
        {...rest}
      />
      {wrong && (
        <span id={why} role="alert" className={css.tone} data-tone="bad">
          {auditWords.notAMoment}
        </span>
      )}
    </label>
  );
}
