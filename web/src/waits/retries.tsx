// Steps whose last try failed and whose next one has not started: nothing works on them. No event says so.
import { RotateCcw } from "lucide-react";
import { createContext, type ReactNode, use, useMemo } from "react";
import { instant, type RunHeader } from "../api/model";
import { type Instant, ticking } from "../format/format";
import { m } from "../messages";
import { useHeader, useRunStore } from "../runstate/context";
import type { RunStore } from "../runstate/store";
import { runLook } from "../status/look";
import type { Look } from "../ui/tones";
import { useAllWaits } from "./useWaits";

export interface NextTry {
  no: number;
  of: number;
  /** Null while the try waits for a worker. */
  at: Instant | null;
}

export interface Retries {
  steps: ReadonlyMap<string, NextTry>;
  /** Their number; more than `steps` names when they are many. */
  count: number;
}

const NONE: Retries = { steps: new Map(), count: 0 };

export const RetriesContext = createContext(NONE);

/** Knows the retries of the run whose header it has. */
export function RetriesProvider({ children }: { children: ReactNode }) {
  const header = useHeader();
  return header === null ? children : <Known header={header}>{children}</Known>;
}

function Known({ header, children }: { header: RunHeader; children: ReactNode }) {
  const { waits } = useAllWaits(header);
  const retries = useMemo((): Retries => {
    const all = waits.filter(({ kind }) => kind === "RETRY");
    return {
      count: all.reduce((sum, { stepCount }) => sum + stepCount, 0),
      steps: new Map(
        all.flatMap(({ steps: [step], try: no, tries, until }) =>
          step === undefined || no === null || tries === null
            ? []
            : [[step, { no, of: tries, at: until === null ? null : instant(until) }] as const],
        ),
      ),
    };
  }, [waits]);
  return <RetriesContext value={retries}>{children}</RetriesContext>;
}

/** The next try of a running step that nothing works on; null for others, and once its time has come. */
export function nextTry({ steps }: Retries, stepId: string, store: RunStore): NextTry | null {
  const next = steps.get(stepId);
  if (next === undefined || store.step(stepId)?.status !== "RUNNING") return null;
  return next.at === null || next.at > store.now() ? next : null;
}

export function useNextTry(stepId: string): NextTry | null {
  return nextTry(use(RetriesContext), stepId, useRunStore());
}

/** "try 3 of 5 in 4 m 41 s" */
export function tryWords({ no, of, at }: NextTry, now: Instant): string {
  return m.step.nextTry(no, of, at === null ? null : ticking(at - now));
}

const LOOK: Look = { tone: "pending", word: m.status.triesAgain, icon: RotateCcw };

/** The look of a step, with the next try in mind. */
export function lookWithTry(look: Look, next: NextTry | null): Look {
  return next === null ? look : LOOK;
}

/** The first next try of a run all of whose running steps wait for one; null for any other run. */
export function useRetrying(header: RunHeader): [stepId: string, next: NextTry] | null {
  const store = useRunStore();
  const retries = use(RetriesContext);
  if (header.status !== "RUNNING" || header.substatus !== null || retries.count < header.stepCounts.running)
    return null;
  const due = [...retries.steps.keys()].flatMap((id) => {
    const next = nextTry(retries, id, store);
    return next === null ? [] : [[id, next] as [string, NextTry]];
  });
  if (due.length < retries.steps.size) return null;
  return due.toSorted(([, a], [, b]) => (a.at ?? Infinity) - (b.at ?? Infinity))[0] ?? null;
}

/** The number of running steps that wait for their next try. */
export function useRetryingCount(header: RunHeader): number {
  const store = useRunStore();
  const retries = use(RetriesContext);
  if (header.status !== "RUNNING") return 0;
  return [...retries.steps.keys()].filter((id) => nextTry(retries, id, store) !== null).length;
}

/** The look of a run: one on whose steps nothing works does not look as if it ran. */
export function useRunLook(header: RunHeader): Look {
  return lookWithTry(runLook(header), useRetrying(header)?.[1] ?? null);
}
