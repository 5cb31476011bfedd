import { useEffect, useRef, useState } from "react";
import { type Action, ActionsDocument, type ActionsQuery } from "../api/gen/graphql";
import type { Availability } from "../api/model";
import { request } from "../api/request";
import { useHeader, useVerdict } from "../runs/context";

const DEBOUNCE_MS = 250;
const RETRY_MS = 3_000;

export interface Actions {
  /** The position that the answer was based on. */
  basedOn: number;
  run: ReadonlyMap<Action, Availability>;
  step: (stepId: string) => ReadonlyMap<Action, Availability> | undefined;
}

function byAction(list: readonly Availability[]): Map<Action, Availability> {
  return new Map(list.map((entry) => [entry.action, entry]));
}

function toActions(run: NonNullable<ActionsQuery["run"]>): Actions {
  const steps = new Map([run.cause, run.chosen].flatMap((step) => (step ? [[step.stepId, byAction(step.actions)] as const] : [])));
  return { basedOn: run.runSeq, run: byAction(run.actions), step: (stepId) => steps.get(stepId) };
}

/** What the viewer may do to the run, its cause of failure and the chosen step; asked again whenever the run moves. */
export function useActions(runId: string, chosenStep: string | null): Actions | null {
  const header = useHeader();
  const verdict = useVerdict();
  const [actions, setActions] = useState<Actions | null>(null);
  const cause = header?.rootCause?.stepId ?? null;
  const seq = header?.runSeq;
  const opsRev = header?.opsRev;
  const online = verdict.state !== "OFFLINE";
  const known = seq !== undefined;
  // What the newest answer must not be older than; a busy run moves it faster than answers come.
  const position = `${seq}/${opsRev}`;
  const wanted = useRef(position);
  wanted.current = position;
  const ask = useRef<(() => void) | null>(null);
  useEffect(() => {
    if (!known || !online) return;
    const abort = new AbortController();
    const variables = {
      runId,
      cause: cause ?? "",
      withCause: cause !== null,
      chosen: chosenStep ?? "",
      withChosen: chosenStep !== null,
    };
    let timer: ReturnType<typeof setTimeout> | null = null;
    let asking = false;
    const later = (ms: number): void => {
      timer ??= setTimeout(() => void now(), ms);
    };
    const now = async (): Promise<void> => {
      timer = null;
      if (asking) return;
      asking = true;
      const asked = wanted.current;
      try {
        const { run } = await request(ActionsDocument, variables, abort.signal);
        setActions(run ? toActions(run) : null);
        asking = false;
        if (asked !== wanted.current) later(DEBOUNCE_MS);
      } catch {
        asking = false;
        if (!abort.signal.aborted) later(RETRY_MS);
      }
    };
    ask.current = () => later(DEBOUNCE_MS);
    // The first answer is awaited by a person, later ones may come together.
    void now();
    return () => {
      ask.current = null;
      if (timer !== null) clearTimeout(timer);
      abort.abort();
    };
  }, [runId, chosenStep, cause, known, online]);
  useEffect(() => ask.current?.(), [position]);
  return actions;
}
