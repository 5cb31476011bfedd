// Automatic tries of one attempt share a log. No event says that a step waits for its next try: the worker prints a
// sentence (engine/executor/runner.go).
import type { Instant } from "../format/format";
import type { LogLine } from "../api/model";

export interface NextTry {
  no: number;
  of: number;
  at: Instant;
}

const SENTENCE = /^try (\d+) of (\d+) starts in (.+)$/;
/** Earlier versions wrote "1m30s" for "1 min 30 s". */
const PARTS = /(\d+(?:\.\d+)?) ?(days|h|min|ms|m|s)/g;
const MS: Readonly<Record<string, number>> = {
  days: 86_400_000,
  h: 3_600_000,
  min: 60_000,
  m: 60_000,
  s: 1_000,
  ms: 1,
};

/** The next try that a line announces, or null. */
export function announcedTry(line: LogLine | undefined): NextTry | null {
  const found = line?.stream === "dvt" ? SENTENCE.exec(line.text) : null;
  if (!line || !found) return null;
  const delay = [...(found[3] ?? "").matchAll(PARTS)].reduce(
    (sum, [, n, unit = ""]) => sum + Number(n) * (MS[unit] ?? 0),
    0,
  );
  return { no: Number(found[1]), of: Number(found[2]), at: line.at + delay };
}

/** The try that begins with a line, and their number if it is known; null for a line that continues the try before. */
export function beginsTry(
  line: LogLine | undefined,
  before: LogLine | undefined,
): { no: number; of: number | null } | null {
  if (!line || !before || line.engineAttemptId === before.engineAttemptId) return null;
  const announced = announcedTry(before);
  return { no: line.engineAttemptId, of: announced?.no === line.engineAttemptId ? announced.of : null };
}
