const INDENT = 2;

/** The text of an artifact as people read it: JSON with a line for each value, also when the preview cut its end. */
export function formatted(name: string, text: string): string {
  if (!name.endsWith(".json")) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, INDENT);
  } catch {
    return text.includes("\n") ? text : brokenLines(text);
  }
}

/** JSON on one line with a line for each value. Text within quotes stays unchanged. */
function brokenLines(text: string): string {
  let depth = 0;
  return text.replaceAll(/\{\s*\}|\[\s*\]|"(?:[^"\\]|\\.)*"?|[[\]{},]\s*/g, (part) => {
    const sign = part.trim();
    if (sign === "{" || sign === "[") return `${sign}\n${" ".repeat(INDENT * ++depth)}`;
    if (sign === "}" || sign === "]") return `\n${" ".repeat(INDENT * (depth = Math.max(0, depth - 1)))}${sign}`;
    return sign === "," ? `,\n${" ".repeat(INDENT * depth)}` : part;
  });
}

/**
 * The address of an artifact of the run, from its URI `artifact:<tenant>/<run>/<path>`; null for one that dvt does not
 * serve, such as a file elsewhere.
 */
export function artifactAddress(runId: string, uri: string): string | null {
  const found = /^artifact:[^/]+\/([^/]+)\/(.+)$/.exec(uri);
  return found?.[1] === encodeURIComponent(runId) ? `/artifacts/${found[1]}/${found[2]}` : null;
}
