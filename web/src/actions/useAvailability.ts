import { useEffect, useRef, useState } from "react";
import { type Action, ActionsDocument, type ActionsQuery } from "../api/gen/graphql";
import type { Availability, RunHeader } from "../api/model";
import { request } from "../api/request";
import { useRunState } from "../runstate/context";
import { ended } from "../status/look";
import { useViewer } from "../session/viewer";

/** The delay before the next question: after a change of status, after progress of steps, and after an error. */
const DEBOUNCE_MS = 250;
const ROUTINE_MS = 1_000;
const RETRY_MS = 3_000;

type Answer = NonNullable<ActionsQuery["run"]>;
export type Task = NonNullable<ActionsQuery["manualTasks"]>["edges"][number]["node"];

export interface AvailableActions {
  /** The position of the answer. */
  basedOn: number;
  run: ReadonlyMap<Action, Availability>;
  /** Known for the cause of failure and for the chosen step only. */
  step: (stepId: string) => ReadonlyMap<Action, Availability> | undefined;
  /** The reason why the run waits for its start. */
  queue: NonNullable<Answer["queue"]> | null;
  approval: NonNullable<Answer["approval"]> | null;
  /** The viewer may reject the run now, even while an approval is refused. */
  mayReject?: boolean;
  /** The line of the log at which the error of the root cause begins; null when it printed nothing. */
  causeLine: number | null;
  /** The last successful run of the same plan; asked for only when this run has failed. */
  lastGreen: NonNullable<NonNullable<ActionsQuery["why"]>["lastGreen"]> | null;
  /** The manual steps that wait for a person. */
  tasks: readonly Task[];
  /** A manual step that waits for a person. */
  task: (stepId: string) => Task | undefined;
}

/** The evidence that a task asks for. */
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
    mayReject: run.actions.some((entry) => entry.action === "APPROVE" && entry.mayReject),
    causeLine: why?.rootCause?.logLine ?? null,
    lastGreen: why?.lastGreen ?? null,
    tasks: [...tasks.values()],
    task: (stepId) => tasks.get(stepId),
  };
}

/** The part of a header that decides which actions the run accepts. */
function statusOf(header: RunHeader | null): string {
  return header === null
    ? ""
    : [header.status, header.substatus, header.pause?.draining, header.stepCounts.failed].join();
}

/**
 * The actions that the viewer may send to the run, its root cause and the chosen step. Asked for again when the run
 * moves, and when the viewer's rights change.
 */
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
  // The newest answer must be at least this new. A busy run moves it faster than answers arrive.
  const position = useRunState((store) => `${store.seq}/${store.newestOpsRev}`);
  const status = useRunState(
    (store) =>
      `${store.newestOpsRev}/${statusOf(store.header())}/${(chosenStep !== null && store.step(chosenStep)?.status) || ""}`,
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
      if (asking) return; // `now` compares after the answer
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
    // A person waits for the first answer, so it is asked for at once.
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
