import { useEffect, useRef, useState } from "react";
import { type Action, ActionsDocument, type ActionsQuery } from "../api/gen/graphql";
import type { Availability, RunHeader } from "../api/model";
import { request } from "../api/request";
import { useRunState } from "../runstate/context";
import { ended } from "../status/look";
import { useViewer } from "../session/viewer";

/** How soon it is asked again when the run stands otherwise, and when only its steps went on. */
const DEBOUNCE_MS = 250;
const ROUTINE_MS = 1_000;
const RETRY_MS = 3_000;

type Answer = NonNullable<ActionsQuery["run"]>;
export type Task = NonNullable<ActionsQuery["manualTasks"]>["edges"][number]["node"];

export interface AvailableActions {
  /** The position that the answer was based on. */
  basedOn: number;
  run: ReadonlyMap<Action, Availability>;
  /** Known of the cause of failure and of the chosen step. */
  step: (stepId: string) => ReadonlyMap<Action, Availability> | undefined;
  /** Why it has not started, while it waits. */
  queue: NonNullable<Answer["queue"]> | null;
  approval: NonNullable<Answer["approval"]> | null;
  /** Where in its log the cause of failure begins to say why; null when it printed nothing. */
  causeLine: number | null;
  /** The last run of the same plan that went well, asked for when this one does not. */
  lastGreen: NonNullable<NonNullable<ActionsQuery["why"]>["lastGreen"]> | null;
  /** The manual steps that wait for a person. */
  tasks: readonly Task[];
  /** The manual step that waits for a person, by its id. */
  task: (stepId: string) => Task | undefined;
}

/** What a task asks to be handed in. */
export function evidenceOf({ evidence }: Task): string[] {
  return Array.isArray(evidence) ? evidence.map(String) : [];
}

function byAction(list: readonly Availability[]): Map<Action, Availability> {
  return new Map(list.map((entry) => [entry.action, entry]));
}

function toAvailableActions(run: Answer, { manualTasks, again, why }: ActionsQuery): AvailableActions {
  const steps = new Map(
    [run.cause, run.chosen].flatMap((step) => (step ? [[step.stepId, byAction(step.actions)] as const] : [])),
  );
  const tasks = new Map((manualTasks?.edges ?? []).map(({ node }) => [node.stepId, node]));
  for (const task of tasks.values()) {
    steps.set(task.stepId, new Map([...(steps.get(task.stepId) ?? []), ["COMPLETE_MANUAL_STEP", task.action]]));
  }
  const whole = byAction(run.actions);
  if (again) {
    const { outcome, code, reason } = again;
    whole.set("RERUN", {
      action: "RERUN",
      outcome,
      code,
      reason,
      rule: null,
      requiredRole: null,
      whoCould: [],
      reasonRequired: false,
      strength: "NORMAL",
    });
  }
  return {
    basedOn: run.runSeq,
    run: whole,
    step: (stepId) => steps.get(stepId),
    queue: run.queue ?? null,
    approval: run.approval ?? null,
    causeLine: why?.rootCause?.logLine ?? null,
    lastGreen: why?.lastGreen ?? null,
    tasks: [...tasks.values()],
    task: (stepId) => tasks.get(stepId),
  };
}

/** What of a run decides which actions it takes. */
function statusOf(header: RunHeader | null): string {
  return header === null
    ? ""
    : [header.status, header.substatus, header.pause?.draining, header.stepCounts.failed].join();
}

/** What the viewer may do to the run, its cause of failure and the chosen step; asked again whenever the run moves, and when the viewer may do something else. */
export function useAvailability(runId: string, chosenStep: string | null): AvailableActions | null {
  const [actions, setActions] = useState<AvailableActions | null>(null);
  const viewer = useViewer();
  const cause = useRunState((store) => store.header()?.rootCause?.stepId ?? null);
  const waiting = useRunState((store) => store.header()?.startedAt === null);
  const over = useRunState((store) => ended(store.header() ?? { status: "UNKNOWN" }));
  const manual = useRunState(
    (store) => store.header()?.substatus === "WAITING_MANUAL" || (store.header()?.stepCounts.running ?? 0) > 0,
  );
  const online = useRunState((store) => store.verdict().state !== "OFFLINE" && store.verdict().state !== "PAST");
  const known = useRunState((store) => store.header() !== null);
  // What the newest answer must not be older than; a busy run moves it faster than answers come.
  const position = useRunState((store) => `${store.seq}/${store.opsRev}`);
  const status = useRunState(
    (store) =>
      `${store.opsRev}/${statusOf(store.header())}/${(chosenStep !== null && store.step(chosenStep)?.status) || ""}`,
  );
  const wanted = useRef({ position, status });
  wanted.current = { position, status };
  const moved = useRef<(() => void) | null>(null);
  useEffect(() => {
    if (!known || !online) return;
    const abort = new AbortController();
    const variables = {
      runId,
      cause: cause ?? "",
      withCause: cause !== null,
      chosen: chosenStep ?? "",
      withChosen: chosenStep !== null,
      waiting,
      manual: manual && !over,
      ended: over,
      again: { runId, runRequestId: "preview", from: { start: true } },
    };
    let timer: ReturnType<typeof setTimeout> | null = null;
    let due = Number.POSITIVE_INFINITY;
    let asking = false;
    let asked = wanted.current;
    const schedule = (ms: number): void => {
      const at = Date.now() + ms;
      if (at >= due) return;
      if (timer !== null) clearTimeout(timer);
      due = at;
      timer = setTimeout(() => void now(), ms);
    };
    const compare = (): void => {
      if (asking) return; // it is done behind the answer
      if (asked.status !== wanted.current.status) schedule(DEBOUNCE_MS);
      else if (asked.position !== wanted.current.position) schedule(ROUTINE_MS);
    };
    const now = async (): Promise<void> => {
      timer = null;
      due = Number.POSITIVE_INFINITY;
      asking = true;
      asked = wanted.current;
      try {
        const answer = await request(ActionsDocument, variables, abort.signal);
        setActions(answer.run ? toAvailableActions(answer.run, answer) : null);
        asking = false;
        compare();
      } catch {
        asking = false;
        if (!abort.signal.aborted) schedule(RETRY_MS);
      }
    };
    moved.current = compare;
    // The first answer is awaited by a person, later ones may come together.
    void now();
    return () => {
      moved.current = null;
      if (timer !== null) clearTimeout(timer);
      abort.abort();
    };
  }, [runId, chosenStep, cause, waiting, manual, over, known, online, viewer]);
  useEffect(() => moved.current?.(), [position, status]);
  return actions;
}
