import { StepLogDocument, type StepLogQuery } from "../api/gen/graphql";
import { queryOnce } from "../api/useQuery";
import { spans } from "../logs/ansi";
import { m } from "../messages";
import { logWords } from "../messages/log";
import prose from "../styles/Prose.module.css";
import css from "./CauseCard.module.css";

/** The number of quoted lines after the line that says why, and of all. At the end of a log more lines stand before it. */
const AFTER = 2;
const QUOTED = 5;

type Lines = NonNullable<StepLogQuery["stepLog"]>["lines"];

const useLines = queryOnce(
  StepLogDocument,
  ({ stepLog }): Lines | null => stepLog?.lines ?? null,
  ({ stepLog }) => (stepLog?.lines?.length ?? 0) > 0,
);

/** The lines of the failed attempt's log around the one that says why; undefined while unknown. They do not change. */
export function useCauseLines(
  runId: string,
  stepId: string | null,
  attempt: number | null,
  line: number | null,
): Lines | null | undefined {
  const fromLine = line === null ? 1 : Math.max(1, line - QUOTED + 1);
  const lines = useLines(
    line === null || stepId === null
      ? null
      : { runId, stepId, attempt, fromLine, first: Math.max(QUOTED, line - fromLine + 1 + AFTER), find: null },
  );
  return lines && lines.slice(-QUOTED);
}

/**
 * The part of a message that the quoted lines do not say. A message such as "ERROR: no table (sh ended with exit status
 * 1)" begins with a line of the log; those of earlier versions end with one. A report of several lines, such as one of dbt,
 * follows its quoted first line in the log too.
 */
export function besideQuote(lines: Lines | null | undefined, message: string): string | null {
  const quoted = (lines ?? []).map(({ text }) => plain(text).trim()).filter((text) => text !== "");
  const said = message.trim();
  if (quoted.some((text) => text.includes(said))) return null;
  const first = longest(quoted.filter((text) => said.startsWith(`${text} (`)));
  if (first !== undefined) return said.slice(first.length + 2).replace(/^last line; |\)$/g, "");
  const [head = said] = said.split("\n", 1);
  const report = head === said ? undefined : longest(quoted.filter((text) => head.trim().endsWith(text)));
  if (report !== undefined) return withoutEnd(head.trim(), report);
  const last = longest(quoted.filter((text) => said.endsWith(text)));
  return last === undefined ? message : withoutEnd(said, last);
}

/** The end that dvt writes to a log, without the quoted line that it repeats: the code, and how the program ended. */
function endWords(text: string, quoted: readonly string[]): string {
  const said = longest(quoted.filter((other) => other !== "" && text.includes(other)));
  if (said === undefined) return text;
  return text.endsWith(said)
    ? (withoutEnd(text, said) ?? text)
    : text.replace(`${said} (`, "").replace("last line; ", "").replace(/\)$/, "");
}

function longest(texts: readonly string[]): string | undefined {
  return texts.toSorted((a, b) => b.length - a.length)[0];
}

/** What a text says before its end, without the words that introduce that. */
function withoutEnd(text: string, end: string): string | null {
  return text.slice(0, -end.length).replace(/(?:; its last line)?[:\s]+$/, "") || null;
}

/** The text of a line; null while it is unknown, or when it is blank. */
export function lineText(lines: Lines | null | undefined, line: number): string | null {
  const text = lines?.find(({ no }) => no === line)?.text;
  return text === undefined ? null : plain(text).trim() || null;
}

/** Quotes the log line that the button below names, with the lines around it. */
export function CauseLog({ line, lines }: { line: number; lines: Lines | null | undefined }) {
  if (!lines || lines.length === 0) return null;
  const streams = new Set(lines.map(({ stream }) => stream));
  const printed = lines.filter(({ stream }) => stream !== "dvt").map(({ text }) => plain(text).trim());
  return (
    <pre className={`${prose.said} ${css.quoted}`} tabIndex={0} aria-label={m.run.logAround(line)}>
      {lines.map(({ no, stream, text }) => (
        <Quoted
          key={no}
          no={no}
          current={no === line}
          text={stream === "dvt" ? endWords(plain(text), printed) : plain(text)}
        />
      ))}
      {streams.has("stdout") && streams.has("stderr") && <span>{logWords.log.unordered}</span>}
    </pre>
  );
}

function Quoted({ no, current, text }: { no: number; current: boolean; text: string }) {
  return (
    <span className={css.quote} aria-current={current || undefined} title={current ? undefined : text}>
      <span className={css.no}>{no}</span>
      <span>{text}</span>
    </span>
  );
}

function plain(text: string): string {
  return spans(text)
    .map((part) => part.text)
    .join("");
}
