// Plans that have run before, as a list to start from. The newest run of each plan in a project and environment counts.
import { useEffect, useId, useRef, useState } from "react";
import { stringify } from "yaml";
import { KnownPlansDocument, type KnownPlansQuery, StartingPointDocument } from "../api/gen/graphql";
import { request } from "../api/request";
import { useQuery } from "../api/useQuery";
import { m } from "../messages";
import form from "../styles/Form.module.css";
import type { Draft } from "./draft";

/** The newest runs among which the plans are looked for. */
const RUNS = 200;
const HIDDEN = '"***"';

type Run = KnownPlansQuery["runs"]["edges"][number]["node"];

/** The newest run of each plan in each project and environment, by plan. */
export function knownPlans(runs: readonly Run[]): Run[] {
  const found = new Map<string, Run>();
  for (const run of runs) {
    const key = [run.plan.planId, run.projectId, run.environmentId].join(" ");
    if (!found.has(key)) found.set(key, run);
  }
  return [...found.values()].toSorted((a, b) => a.plan.planId.localeCompare(b.plan.planId));
}

/** The fields by which people recognise a plan and a step; the store keeps them by name. */
const FIRST = ["schemaVersion", "metadata", "scope", "steps", "planId", "planVersion", "stepId", "name", "type"];

function rank(name: string): number {
  return FIRST.includes(name) ? FIRST.indexOf(name) : FIRST.length;
}

function inReadingOrder(a: { key: unknown }, b: { key: unknown }): number {
  const [left, right] = [String(a.key), String(b.key)];
  return rank(left) - rank(right) || left.localeCompare(right);
}

interface Props {
  choose: (part: Partial<Draft>) => void;
  /** The plan that is loaded at once, by its id. */
  wanted?: string | undefined;
}

export function KnownPlans({ choose, wanted }: Props) {
  const { answer } = useQuery(KnownPlansDocument, { first: RUNS }, ({ runs }) =>
    knownPlans(runs.edges.map(({ node }) => node)),
  );
  const [said, setSaid] = useState<string | null>(null);
  const hint = useId();
  const load = async (runId: string): Promise<void> => {
    setSaid(m.start.loading);
    const { run } = await request(StartingPointDocument, { runId });
    if (!run?.planDocument) {
      setSaid(m.start.knownUnread);
      return;
    }
    const { params } = run.request;
    choose({
      plan: stringify(run.planDocument, { lineWidth: 0, sortMapEntries: inReadingOrder }),
      params: params === null ? "" : JSON.stringify(params, null, 2),
      from: runId,
    });
    setSaid(JSON.stringify([run.planDocument, params]).includes(HIDDEN) ? m.start.knownHidden : null);
  };
  const start = (runId: string): void => {
    load(runId).catch((cause: unknown) => setSaid(cause instanceof Error ? cause.message : String(cause)));
  };
  const asked = useRef(false);
  useEffect(() => {
    if (!answer || wanted === undefined || asked.current) return;
    asked.current = true;
    const known = answer.find((run) => run.plan.planId === wanted);
    if (known) start(known.runId);
    else setSaid(m.start.knownMissing(wanted));
    // The plan is loaded once, when the list has arrived.
    // oxlint-disable-next-line react/exhaustive-deps
  }, [answer, wanted]);
  if (!answer || answer.length === 0) return null;
  return (
    <>
      <label className={form.field}>
        <span>{m.start.known}</span>
        <select value="" aria-describedby={hint} onChange={(event) => start(event.target.value)}>
          <option value="">{m.start.knownNone}</option>
          {answer.map((run) => (
            <option key={run.runId} value={run.runId}>
              {m.start.knownOf(`${run.plan.planId}@${run.plan.planVersion}`, run.projectId, run.environmentId)}
            </option>
          ))}
        </select>
      </label>
      <p id={hint} role="status" className={form.hint}>
        {said}
      </p>
    </>
  );
}
