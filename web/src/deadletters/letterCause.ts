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

/** The errors that are over when the bus answers again. The others stay until somebody mends their cause. */
const PASSING: readonly (keyof typeof dlqWords.known)[] = ["unwell", "away"];

interface Cause {
  says: string;
  todo: string;
  /** A new try succeeds once the bus answers. */
  passes: boolean;
}

/** What an error of the bus means and what mends it; null for an error without words. */
export function causeOf(error: string): Cause | null {
  const found = KNOWN.find(([pattern]) => pattern.test(error));
  return found ? { ...dlqWords.known[found[1]], passes: PASSING.includes(found[1]) } : null;
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
  passes: boolean;
  messages: number;
  runs: number;
  /** The oldest of them, as the API writes it. */
  since: string;
}

/** The open letters by their cause, the most frequent first. */
export function groupsOf(letters: readonly Letter[]): CauseGroup[] {
  const groups = new Map<string, { todo: string | null; passes: boolean; letters: Letter[] }>();
  for (const letter of letters) {
    if (letter.redrivenAt !== null) continue;
    const known = causeOf(letter.cause);
    const says = known?.says ?? letter.cause;
    const group = groups.get(says) ?? { todo: known?.todo ?? null, passes: known?.passes ?? false, letters: [] };
    group.letters.push(letter);
    groups.set(says, group);
  }
  return [...groups]
    .map(([says, { todo, passes, letters: own }]) => ({
      says,
      todo,
      passes,
      messages: own.length,
      runs: new Set(own.map(({ runId }) => runId)).size,
      since: own.map(({ buriedAt }) => buriedAt).toSorted()[0] ?? "",
    }))
    .toSorted((a, b) => b.messages - a.messages);
}
