// Why the bus refused messages, in the words of the person who can mend it.
import { dlq as dlqWords } from "../messages/deadLetters";

const KNOWN: readonly [RegExp, keyof typeof dlqWords.known][] = [
  [/\bOOM\b|maxmemory/, "memory"],
  [/\bREADONLY\b/, "replica"],
  [/\b(NOAUTH|WRONGPASS|NOPERM)\b/, "rights"],
  [/bulk length|too (large|big)|proto-max/i, "size"],
  [/\bMISCONF\b|\bMASTERDOWN\b|\bLOADING\b/, "unwell"],
  [/connection|timeout|i\/o|EOF|refused/i, "away"],
];

/** What an error of the bus means and what mends it; null for an error without words. */
export function causeOf(error: string): { says: string; todo: string } | null {
  const found = KNOWN.find(([pattern]) => pattern.test(error));
  return found ? dlqWords.known[found[1]] : null;
}

interface Letter {
  runId: string;
  cause: string;
  buriedAt: string;
  redrivenAt: string | null;
}

export interface CauseGroup {
  /** The error of the bus, or the sentence for it. */
  says: string;
  todo: string | null;
  messages: number;
  runs: number;
  /** The oldest of them, as the API writes it. */
  since: string;
}

/** The open letters by their cause, the most frequent first. */
export function groupsOf(letters: readonly Letter[]): CauseGroup[] {
  const groups = new Map<string, { todo: string | null; letters: Letter[] }>();
  for (const letter of letters) {
    if (letter.redrivenAt !== null) continue;
    const known = causeOf(letter.cause);
    const says = known?.says ?? letter.cause;
    const group = groups.get(says) ?? { todo: known?.todo ?? null, letters: [] };
    group.letters.push(letter);
    groups.set(says, group);
  }
  return [...groups]
    .map(([says, { todo, letters: own }]) => ({
      says,
      todo,
      messages: own.length,
      runs: new Set(own.map(({ runId }) => runId)).size,
      since: own.map(({ buriedAt }) => buriedAt).toSorted()[0] ?? "",
    }))
    .toSorted((a, b) => b.messages - a.messages);
}
