import { type RefObject, useEffect } from "react";
import type { ApiError, Violation } from "../api/error";
import { m } from "../messages";
import css from "../styles/Form.module.css";
import { locate } from "./jsonLocation";

/** Goes to what a path names; false when it is not in sight. */
export type GoTo = (path: string) => boolean;

interface ListProps {
  violations: readonly Violation[];
  goTo?: GoTo | undefined;
}

/** All that is wrong, at once; each leads to its place, where it has one. */
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

/** What the server has against it. */
export function Violations({ error, goTo }: { error: ApiError | null; goTo?: GoTo }) {
  return (
    <div role="alert" className={css.problem}>
      {error && (
        <p>
          {error.message} <code>{error.code}</code>{" "}
          {error.whoCould.length > 0 && m.denied.could(error.whoCould.join(", "))}
        </p>
      )}
      {error && error.violations.length > 0 && <ViolationList violations={error.violations} goTo={goTo} />}
    </div>
  );
}

/** What is wrong with the field of a path, or with a part of it; null when nothing is. */
export function wrongWith(violations: readonly Violation[], path: string): string | null {
  const found = violations.filter(
    (violation) =>
      violation.path === path || violation.path.startsWith(`${path}.`) || violation.path.startsWith(`${path}[`),
  );
  return found.length === 0 ? null : found.map(({ message }) => message).join("; ");
}

/** What is wrong with a field, below it. */
export function Wrong({ id, text }: { id: string; text: string | null }) {
  return text === null ? null : (
    <span id={id} className={css.wrong}>
      {text}
    </span>
  );
}

/** What an input says of itself while something is wrong with it. */
export function wrongProps(id: string, text: string | null): { "aria-invalid"?: true; "aria-describedby"?: string } {
  return text === null ? {} : { "aria-invalid": true, "aria-describedby": id };
}

/** Gives the focus to the first field that a refusal is about. */
export function useFirstWrong(form: RefObject<HTMLElement | null>, error: ApiError | null): void {
  useEffect(() => {
    if (error) form.current?.querySelector<HTMLElement>("[aria-invalid]:not(textarea)")?.focus();
  }, [form, error]);
}

/** Selects the place of a path in a document that is edited as JSON. */
export function showIn(area: HTMLTextAreaElement | null, path: string): boolean {
  const at = area && locate(area.value, path);
  if (!at) return false;
  area.focus();
  area.setSelectionRange(...at);
  const line = area.value.slice(0, at[0]).split("\n").length;
  area.scrollTop = Math.max(0, (line - 3) * Number.parseFloat(getComputedStyle(area).lineHeight));
  return true;
}
