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
  const asked = useRef(false);
  useEffect(() => {
    if (seq === undefined || !online) return;
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout>;
    const ask = (): void => {
      const variables = {
        runId,
        cause: cause ?? "",
        withCause: cause !== null,
        chosen: chosenStep ?? "",
        withChosen: chosenStep !== null,
      };
      request(ActionsDocument, variables, abort.signal)
        .then(({ run }) => setActions(run ? toActions(run) : null))
        .catch(() => {
          if (!abort.signal.aborted) timer = setTimeout(ask, RETRY_MS);
        });
    };
    // The first answer is awaited by a person, later ones may come together.
    timer = setTimeout(ask, asked.current ? DEBOUNCE_MS : 0);
    asked.current = true;
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [runId, chosenStep, cause, seq, opsRev, online]);
  return actions;
}
