import { useEffect, useState } from "react";
import { m } from "../messages";
import { count } from "../ui/format";
import css from "./LogView.module.css";
import { firstWords } from "./errors";
import type { LogOf } from "./useLog";

const LISTED = 20;

interface ErrorListProps {
  of: LogOf;
  /** The lines that speak of an error. */
  lines: readonly number[];
  current: number | null;
  goTo: (line: number) => void;
}

/** The lines that speak of an error with how they begin: those around the current one, when they are many. */
export function ErrorList({ of, lines, current, goTo }: ErrorListProps) {
  const { runId, stepId, attempt } = of;
  const at = Math.max(0, lines.indexOf(current ?? 0));
  const from = Math.max(0, Math.min(Math.floor(at / LISTED) * LISTED, lines.length - 1));
  const shown = lines.slice(from, from + LISTED);
  const wanted = shown.join();
  const [words, setWords] = useState<ReadonlyMap<number, string>>(new Map());
  useEffect(() => {
    const abort = new AbortController();
    const numbers = wanted === "" ? [] : wanted.split(",").map(Number);
    for (const no of numbers) {
      firstWords({ runId, stepId, attempt }, no, abort.signal)
        .then((text) => setWords((held) => new Map(held).set(no, text)))
        .catch(() => {});
    }
    return () => abort.abort();
  }, [runId, stepId, attempt, wanted]);
  if (lines.length === 0) return <p className={css.empty}>{m.log.noErrors}</p>;
  return (
    <div>
      <ul className={css.errors} aria-label={m.log.errorLines}>
        {shown.map((no) => (
          <li key={no}>
            <button type="button" className={css.error} aria-current={no === current || undefined} onClick={() => goTo(no)}>
              <span className={css.no}>{no}</span> {words.get(no) ?? "…"}
            </button>
          </li>
        ))}
      </ul>
      {lines.length > LISTED && <p className={css.total}>{m.log.errorsShown(count(from + 1), count(from + shown.length), count(lines.length))}</p>}
    </div>
  );
}
