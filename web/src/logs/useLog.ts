import { useEffect, useMemo, useRef, useSyncExternalStore } from "react";
import { follow } from "../api/follow";
import {
  StepLogBeginDocument,
  StepLogDocument,
  StepLogUpdatesDocument,
  type StepLogUpdatesSubscriptionVariables,
} from "../api/gen/graphql";
import { toLine } from "../api/model";
import { request } from "../api/request";
import { LogStore, type Source, WINDOW } from "./store";

/** The log of one logical attempt. */
export interface LogOf {
  runId: string;
  stepId: string;
  attempt: number;
}

export function sourceOf({ runId, stepId, attempt }: LogOf): Source {
  return {
    begin: async () => {
      const { stepLog } = await request(StepLogBeginDocument, { runId, stepId, attempt });
      return {
        totalLines: stepLog?.totalLines ?? 0,
        missing: stepLog?.missing ?? null,
        errorLine: stepLog?.errorLine ?? null,
      };
    },
    page: async (fromLine, first) => {
      const { stepLog } = await request(StepLogDocument, { runId, stepId, attempt, fromLine, first });
      return {
        lines: (stepLog?.lines ?? []).map(toLine),
        totalLines: stepLog?.totalLines ?? 0,
        missing: stepLog?.missing ?? null,
      };
    },
  };
}

/** Opens a log, and follows it while the attempt runs. */
export function useLog({ runId, stepId, attempt }: LogOf, running: boolean): LogStore {
  const log = useMemo(() => new LogStore(sourceOf({ runId, stepId, attempt })), [runId, stepId, attempt]);
  useSyncExternalStore(log.subscribe, log.version);
  const unknown = log.total === null && log.error === null;
  useEffect(() => {
    if (unknown) void log.begin();
  }, [log, unknown]);
  const known = log.total !== null;
  useEffect(() => {
    // An attempt that ended before the log was opened prints no more.
    if (!known || !running || log.complete) return;
    const variables: StepLogUpdatesSubscriptionVariables = { runId, stepId, attempt, fromLine: (log.total ?? 0) + 1 };
    const stream = follow(StepLogUpdatesDocument, variables, {
      next: ({ stepLogUpdates: update }) => {
        log.append({ ...update, lines: update.lines.map(toLine) }, update.complete);
        variables.fromLine = (log.total ?? 0) + 1;
        if (update.complete) stream.close();
      },
      refused: () => {},
    });
    return stream.close;
  }, [log, known, running, runId, stepId, attempt]);
  // The last lines may come with the end of the attempt. Only then does the server know at which line its error begins.
  const wasRunning = useRef(running);
  useEffect(() => {
    if (wasRunning.current && !running) {
      const rest = log.complete
        ? Promise.resolve()
        : sourceOf({ runId, stepId, attempt })
            .page((log.total ?? 0) + 1, WINDOW)
            .then((page) => log.append(page, true));
      void rest.then(() => log.findError()).catch(() => {});
    }
    wasRunning.current = running;
  }, [log, running, runId, stepId, attempt]);
  return log;
}
