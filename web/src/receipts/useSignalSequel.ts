import { SignalSequelDocument } from "../api/gen/graphql";
import { instant, type Signal } from "../api/model";
import { useQuery } from "../api/useQuery";
import { followed, type Sequel } from "./followed";

const EVERY_MS = 5_000;

/** A receipt of any run: the name of its plan, and what followed; null while unknown. */
export interface Known {
  planId: string;
  stepName: string | null;
  sequel: Sequel | null;
}

function time(text: string | null): number | null {
  return text === null ? null : instant(text);
}

/** Asks what became of the run and the step of a receipt, because the tray is open on pages that do not know them. */
export function useSignalSequel(signal: Signal, ask: boolean): Known | null {
  const { answer } = useQuery(
    SignalSequelDocument,
    ask ? { runId: signal.runId, stepId: signal.stepId ?? "", ofStep: signal.stepId !== null } : null,
    ({ run }): Known | null => {
      if (!run) return null;
      const step = run.step && {
        ...run.step,
        startedAt: time(run.step.startedAt),
        completedAt: time(run.step.completedAt),
        attempts: run.step.attempts.map((attempt) => ({
          ...attempt,
          startedAt: time(attempt.startedAt),
          completedAt: time(attempt.completedAt),
        })),
      };
      return {
        planId: run.plan.planId,
        stepName: step?.name ?? null,
        sequel: followed(signal, run, step ?? undefined),
      };
    },
    { every: EVERY_MS },
  );
  return answer ?? null;
}
