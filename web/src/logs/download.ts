import { preciseTime } from "../ui/format";
import { type Source, WINDOW } from "./store";

/** The whole log as text, a window at a time, with the time in UTC and the stream before each line. Throws ApiError. */
export async function wholeLog(source: Source, told: (lines: number, of: number) => void, signal: AbortSignal): Promise<Blob> {
  const parts: string[] = [];
  for (let from = 1; ; from += WINDOW) {
    const { lines, totalLines } = await source.page(from, WINDOW);
    signal.throwIfAborted();
    parts.push(lines.map((line) => `${preciseTime(line.at, "utc")} ${line.stream} ${line.text}\n`).join(""));
    told(Math.min(from + WINDOW - 1, totalLines), totalLines);
    if (lines.length === 0 || from + WINDOW > totalLines) return new Blob(parts, { type: "text/plain;charset=utf-8" });
  }
}
