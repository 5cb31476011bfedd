import { StepLogDocument, TypedDocumentString } from "../api/gen/graphql";
import { request } from "../api/request";
import { spans } from "./ansi";
import type { LogOf } from "./useLog";

/** The words by which errors are found; the server's search is case-sensitive. */
const WORDS = ["rror", "ERROR", "FAIL"];

/**
 * The lines that mention an error, in order, with the line at which the error begins; at most 1,000 for each word.
 * Throws ApiError.
 */
export async function errorLines({ runId, stepId, attempt }: LogOf, errorLine: number | null): Promise<number[]> {
  const found = await Promise.all(
    WORDS.map((find) => request(StepLogDocument, { runId, stepId, attempt, fromLine: 1, first: 1, find })),
  );
  const lines = new Set(found.flatMap(({ stepLog }) => stepLog?.matches ?? []));
  if (errorLine !== null) lines.add(errorLine);
  return [...lines].toSorted((a, b) => a - b);
}

/** The next of the lines after the current one, else the first. */
export function nextLine(lines: readonly number[], current: number | null): number | null {
  return lines.find((line) => line > (current ?? 0)) ?? lines[0] ?? null;
}

type Words = Record<string, { lines: { no: number; text: string }[] } | null>;

/** A query for lines by their numbers `l0`, `l1`, …: scattered lines of a log in one request. */
export function linesDocument(many: number): TypedDocumentString<Words, LogOf & Record<string, unknown>> {
  const each = (part: (i: number) => string): string => Array.from({ length: many }, (_, i) => part(i)).join("");
  return new TypedDocumentString(
    `query ErrorLines($runId: String!, $stepId: String!, $attempt: Int${each((i) => `, $l${i}: Int!`)}) {${each((i) => ` l${i}: stepLog(runId: $runId, stepId: $stepId, attempt: $attempt, fromLine: $l${i}, first: 1) { lines { no text } }`)} }`,
  );
}

/** The beginnings of lines by their numbers. */
export function beginnings(found: Words): ReadonlyMap<number, string> {
  return new Map(
    Object.values(found).flatMap((log) => (log?.lines ?? []).map(({ no, text }) => [no, beginning(text)] as const)),
  );
}

const WORDS_OF_LINE = 120;

/** The beginning of a line, without its escape sequences. */
export function beginning(text: string): string {
  const plain = spans(text)
    .map((span) => span.text)
    .join("")
    .trim();
  return plain.length <= WORDS_OF_LINE ? plain : `${plain.slice(0, WORDS_OF_LINE)}…`;
}
