import { type RefObject, useEffect } from "react";
import type { ApiError, Violation } from "../api/error";
import { m } from "../messages";
import css from "../styles/Form.module.css";
import { locate } from "./jsonLocation";

/** Goes to the field of a path; false when the page does not show it. */
export type GoTo = (path: string) => boolean;

interface ListProps {
  violations: readonly Violation[];
  goTo?: GoTo | undefined;
}

/** Lists all violations; each leads to its field when there is one. */
export function ViolationList({ violations, goTo }: ListProps) {
  return (
    <ul className={css.violations}>
      {violations.map(({ path, code, message }) => (
        <li key={`${path} ${code} ${message}`}>
          {goTo ? (
            <button type="button" className={css.place} title={m.page.goTo} onClick={() => goTo(path)}>
              <code>{path}</code>
            </button>
          ) : (
            <code>{path}</code>
          )}
          : {message}
        </li>
      ))}
    </ul>
  );
}

/** Shows an error of the server with its violations. */
export function Violations({ error, goTo }: { error: ApiError | null; goTo?: GoTo }) {
  return (
    <div role="alert" className={css.problem}>
      {error && (
        <p>
          {error.message} <code>{error.code}</code> {error.whoCould.length > 0 && m.denied.could(error.whoCould)}
        </p>
      )}
      {error && error.violations.length > 0 && <ViolationList violations={error.violations} goTo={goTo} />}
    </div>
  );
}

/** The messages about the field of a path or a part of it; null when there are none. */
export function wrongWith(violations: readonly Violation[], path: string): string | null {
  const found = violations.filter(
    (violation) =>
      violation.path === path || violation.path.startsWith(`${path}.`) || violation.path.startsWith(`${path}[`),
  );
  return found.length === 0 ? null : found.map(({ message }) => message).join("; ");
}

/** The message below a field. */
export function Wrong({ id, text }: { id: string; text: string | null }) {
  return text === null ? null : (
    <span id={id} className={css.wrong}>
      {text}
    </span>
  );
}

/** The ARIA attributes of an input with a violation. */
export function wrongProps(id: string, text: string | null): { "aria-invalid"?: true; "aria-describedby"?: string } {
  return text === null ? {} : { "aria-invalid": true, "aria-describedby": id };
}

/** Moves the focus to the first field with a violation. */
export function useFirstWrong(form: RefObject<HTMLElement | null>, error: ApiError | null): void {
  useEffect(() => {
    if (error) form.current?.querySelector<HTMLElement>("[aria-invalid]:not(textarea)")?.focus();
  }, [form, error]);
}

/** Selects the part of a JSON text that a path names; false when there is none. */
export function showIn(area: HTMLTextAreaElement | null, path: string): boolean {
  const at = area && locate(area.value, path);
  if (!at) return false;
  area.focus();
  area.setSelectionRange(...at);
  const line = area.value.slice(0, at[0]).split("\n").length;
  area.scrollTop = Math.max(0, (line - 3) * Number.parseFloat(getComputedStyle(area).lineHeight));
  return true;
}
