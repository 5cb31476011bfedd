import { useQuery } from "../api/useQuery";
import { logWords } from "../messages/log";
import { count } from "../format/format";
import css from "./LogView.module.css";
import { beginnings, linesDocument } from "./errors";
import type { LogOf } from "./useLog";

const LISTED = 20;

interface ErrorListProps {
  of: LogOf;
  /** The lines that mention an error. */
  lines: readonly number[];
  current: number | null;
  goTo: (line: number) => void;
}

/** Lists the lines that mention an error, with their beginnings: those around the current line, when there are many. */
export function ErrorList({ of, lines, current, goTo }: ErrorListProps) {
  const at = Math.max(0, lines.indexOf(current ?? 0));
  const from = Math.max(0, Math.min(Math.floor(at / LISTED) * LISTED, lines.length - 1));
  const shown = lines.slice(from, from + LISTED);
  const numbers = Object.fromEntries(shown.map((no, i) => [`l${i}`, no]));
  // When the list grows, the other lines keep their words until the answer arrives.
  const { last: words } = useQuery(
    linesDocument(shown.length),
    shown.length > 0 ? { ...of, ...numbers } : null,
    beginnings,
  );
  if (lines.length === 0) return <p className={css.empty}>{logWords.log.noErrors}</p>;
  return (
    <div>
      <ul className={css.errors} aria-label={logWords.log.errorLines}>
        {shown.map((no) => (
          <li key={no}>
            <button
              type="button"
              className={css.error}
              aria-current={no === current || undefined}
              onClick={() => goTo(no)}
            >
              <span className={css.no}>{no}</span> {words?.get(no) ?? "…"}
            </button>
          </li>
        ))}
      </ul>
      {lines.length > LISTED && (
        <p className={css.total}>
          {logWords.log.errorsShown(count(from + 1), count(from + shown.length), count(lines.length))}
        </p>
      )}
    </div>
  );
}
