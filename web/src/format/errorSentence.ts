/** Databases begin each message with it, where the reader looks for the difference to the next row. */
const PREFIX = /^(?:error:\s*)+/i;

/** The first line of an error with its step, the error first: a column cuts the end. */
export function errorSentence(message: string | null, step: string | null): string {
  const [line = ""] = (message ?? "").trim().split("\n");
  return [line.replace(PREFIX, ""), step ?? ""].filter((part) => part !== "").join(" · ");
}
