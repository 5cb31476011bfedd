import { ChevronDown, ChevronUp } from "lucide-react";
import { type Ref, useEffect, useState } from "react";
import { StepLogDocument } from "../api/gen/graphql";
import { useQuery } from "../api/useQuery";
import { logWords } from "../messages/log";
import { Button } from "../ui/Button";
import { count } from "../format/format";
import css from "./LogView.module.css";
import type { LogOf } from "./useLog";

const TYPING_MS = 250;

interface Matches {
  lines: readonly number[];
  total: number;
}

interface FindProps {
  of: LogOf;
  /** The number of lines of the log. */
  lines: number;
  find: string;
  setFind: (find: string) => void;
  goTo: (line: number) => void;
  field: Ref<HTMLInputElement>;
}

/** Searches the whole log on the server. */
export function Find({ of, lines, find, setFind, goTo, field }: FindProps) {
  const [text, setText] = useState(find);
  const [chosen, setChosen] = useState(0);
  const { runId, stepId, attempt } = of;
  useEffect(() => {
    if (text === find) return;
    const timer = setTimeout(() => setFind(text), TYPING_MS);
    return () => clearTimeout(timer);
  }, [text, find, setFind]);
  const { answer = null } = useQuery(
    StepLogDocument,
    find === "" ? null : { runId, stepId, attempt, fromLine: 1, first: 1, find },
    ({ stepLog }): Matches | null => stepLog && { lines: stepLog.matches, total: stepLog.totalMatches },
  );
  useEffect(() => {
    setChosen(0);
    const [first] = answer?.lines ?? [];
    if (first !== undefined) goTo(first);
  }, [answer, goTo]);
  const matches = answer && { ...answer, at: chosen };
  const step = (by: number): void => {
    if (!matches || matches.lines.length === 0) return;
    const at = (matches.at + by + matches.lines.length) % matches.lines.length;
    setChosen(at);
    const line = matches.lines[at];
    if (line !== undefined) goTo(line);
  };
  return (
    <span className={css.find}>
      <input
        ref={field}
        type="search"
        value={text}
        maxLength={200}
        placeholder={lines > 0 ? logWords.log.findIn(lines) : logWords.log.find}
        title={lines > 0 ? logWords.log.findIn(lines) : undefined}
        aria-label={logWords.log.find}
        aria-keyshortcuts="/"
        onChange={(event) => setText(event.target.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter") step(event.shiftKey ? -1 : 1);
          if (event.key !== "Escape") return;
          // Esc leaves the field, and closes the step only when pressed again.
          event.preventDefault();
          if (text === "") event.currentTarget.blur();
          else setText("");
        }}
      />
      <span role="status" data-testid="matches">
        {matches &&
          (matches.total === 0
            ? logWords.log.noMatches
            : logWords.log.matches(count(matches.at + 1), count(matches.total)))}
      </span>
      {matches && matches.lines.length > 1 && (
        <>
          <Button kind="quiet" label={logWords.log.previous} onClick={() => step(-1)}>
            <ChevronUp size={14} aria-hidden="true" />
          </Button>
          <Button kind="quiet" label={logWords.log.next} onClick={() => step(1)}>
            <ChevronDown size={14} aria-hidden="true" />
          </Button>
        </>
      )}
    </span>
  );
}
