// The run that a person means: by its id, by the beginning of its id as `dvt run` takes it, or as the last green run of a
// plan. The server finds the runs; what it does not show does not exist here.
import { RunsDocument } from "../api/gen/graphql";
import { type RunRow, toRow } from "../api/model";
import { useQuery } from "../api/useQuery";
import { m } from "../messages";

const WHOLE = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i;
const LAST_GREEN = /^last green of (\S+?)(?: in ([^/\s]+)\/(\S+))?$/i;
/** As in `dvt run`: fewer characters match too many runs. */
const SHORTEST = 4;
/** The runs that are read for one text. */
const READ = 50;

export interface RunRef {
  runId: string | null;
  /** The run, when it was read. */
  run: RunRow | null;
  /** Why no single run is meant; null while the answer is awaited too. */
  problem: string | null;
  /** The runs among which the text does not choose. */
  among: readonly RunRow[];
}

const NONE: RunRef = { runId: null, run: null, problem: null, among: [] };

/** The text that means the last green run of a plan in one place. */
export function lastGreenOf(planId: string, projectId: string, environmentId: string): string {
  return `last green of ${planId} in ${projectId}/${environmentId}`;
}

function filterOf(text: string): Record<string, unknown> {
  const [, planId, projectId, environmentId] = LAST_GREEN.exec(text) ?? [];
  if (planId === undefined) return { text };
  return { planId, statuses: ["COMPLETED"], ...(projectId ? { projectId, environmentId } : {}) };
}

/** The run that the text means among those that the server found for it. */
export function meant(text: string, found: readonly RunRow[]): RunRef {
  if (LAST_GREEN.test(text)) {
    const [newest] = found;
    if (!newest) return { ...NONE, problem: m.compare.noGreen(text) };
    const places = new Set(found.map((run) => `${run.projectId}/${run.environmentId}`));
    if (places.size > 1) return { ...NONE, problem: m.compare.whichPlace([...places]) };
    return { ...NONE, runId: newest.runId, run: newest };
  }
  const same = found.find((run) => run.runId === text);
  const begin = same ? [same] : found.filter((run) => run.runId.startsWith(text));
  const [one] = begin;
  if (one && begin.length === 1) return { ...NONE, runId: one.runId, run: one };
  if (one) return { ...NONE, problem: m.compare.several(begin.length, text), among: begin };
  const ofPlan = found.filter((run) => run.plan.planId === text);
  if (ofPlan.length > 0) return { ...NONE, problem: m.compare.isPlan(text), among: ofPlan };
  return { ...NONE, problem: m.compare.noRun(text) };
}

/** Finds the run that a text means. A whole id is taken without a request, unless `look` asks to see that it exists. */
export function useRunRef(given: string | undefined, look: boolean): RunRef {
  const text = given?.trim() ?? "";
  const taken = WHOLE.test(text) && !look;
  const short = text !== "" && text.length < SHORTEST;
  const asked = text === "" || taken || short ? null : filterOf(text);
  const { answer, error } = useQuery(
    RunsDocument,
    asked && { first: READ, after: null, filter: asked, orderBy: "CREATED_DESC" as const },
    ({ runs }) => runs.edges.map((edge) => toRow(edge.node)),
  );
  if (taken) return { ...NONE, runId: text };
  if (short) return { ...NONE, problem: m.compare.tooShort(SHORTEST) };
  if (error) return { ...NONE, problem: error.message };
  return answer ? meant(text, answer) : NONE;
}
