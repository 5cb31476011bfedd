import { preciseTime } from "../format/format";
import { type Source, WINDOW } from "./store";

/** The whole log as text, a window at a time, with the time in UTC and the stream before each line. Throws ApiError. */
export async function wholeLog(
  source: Source,
  told: (lines: number, of: number) => void,
  signal: AbortSignal,
): Promise<Blob> {
  const parts: string[] = [];
  for (let from = 1; ;) {
    const { lines, totalLines } = await source.page(from, WINDOW);
    signal.throwIfAborted();
    parts.push(lines.map((line) => `${preciseTime(line.at, "utc")} ${line.stream} ${line.text}\n`).join(""));
    const last = lines.at(-1)?.no ?? totalLines;
    told(last, totalLines);
    from = last + 1;
    if (from > totalLines) return new Blob(parts, { type: "text/plain;charset=utf-8" });
  }
}
