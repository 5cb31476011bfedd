import { useEffect, useState } from "react";
import { RunTagsDocument } from "../api/gen/graphql";
import { request } from "../api/request";

/** The most runs that one request may name. */
const MOST = 200;
const NONE: ReadonlyMap<string, Marks> = new Map();
const UNMARKED: Marks = { tags: [], notes: 0 };

/** What people attached to a run. */
export interface Marks {
  tags: readonly string[];
  /** Their number. */
  notes: number;
}

/**
 * The tags and the numbers of notes of the shown runs, in one request for all rows that came together. They are
 * decoration: without an answer the rows have none.
 */
export function useRowMarks(runIds: readonly string[]): ReadonlyMap<string, Marks> {
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
      .then(({ runTags }) => new Map(runTags.map(({ runId, ...marks }) => [runId, marks] as const)))
      .catch(() => NONE)
      .then((read) => {
        if (!abort.signal.aborted)
          setKnown((old) => new Map([...old, ...ids.map((id) => [id, read.get(id) ?? UNMARKED] as const)]));
      });
    return () => abort.abort();
  }, [missing]);
  return known;
}
