const READABLE = /\.(?:json|csv|html|log|md|sql|txt|xml|ya?ml)$/i;

/**
 * The address of an artifact of the run, from its URI `artifact:<tenant>/<run>/<path>`; null for one that dvt does not
 * serve, such as a file elsewhere.
 */
export function artifactAddress(runId: string, uri: string): string | null {
  const found = /^artifact:[^/]+\/([^/]+)\/(.+)$/.exec(uri);
  return found?.[1] === encodeURIComponent(runId) ? `/artifacts/${found[1]}/${found[2]}` : null;
}

/** Whether the file has text that a preview can show. */
export function isReadable(name: string): boolean {
  return READABLE.test(name);
}
