import { useEffect, useState } from "react";
import { RunTagsDocument } from "../api/gen/graphql";
import { request } from "../api/request";

/** The most runs that one request may name. */
const MOST = 200;
const NONE: ReadonlyMap<string, readonly string[]> = new Map();

/**
 * The tags of the shown runs, in one request for all rows that came together. They are decoration: without an answer
 * the rows have none.
 */
export function useRowTags(runIds: readonly string[]): ReadonlyMap<string, readonly string[]> {
  const [known, setKnown] = useState(NONE);
  const missing = runIds
    .filter((id) => !known.has(id))
    .slice(0, MOST)
    .join(" ");
  useEffect(() => {
    if (missing === "") return;
    const abort = new AbortController();
    const ids = missing.split(" ");
    request(RunTagsDocument, { runIds: ids }, abort.signal)
      .then(({ runTags }) => new Map(runTags.map(({ runId, tags }) => [runId, tags] as const)))
      .catch(() => NONE)
      .then((read) => {
        if (!abort.signal.aborted)
          setKnown((old) => new Map([...old, ...ids.map((id) => [id, read.get(id) ?? []] as const)]));
      });
    return () => abort.abort();
  }, [missing]);
  return known;
}
