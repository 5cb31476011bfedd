import type { RunUpdatesSubscription, StepFieldsFragment, SyncReason, SyncState } from "../api/gen/graphql";
import type { Instant } from "../format/format";
import { type RunHeader, type Step, instant, toHeader, toStep } from "../api/model";

/** One frame of `runUpdates`. Without snapshot and delta it is quiet: it only says how fresh the view is. */
export interface RunFrame {
  sync: SyncState;
  reason: SyncReason | null;
  runSeq: number;
  headSeq: number | null;
  epoch: string;
  opsRev: number;
  asOf: Instant;
  lagMs: number;
  reset: boolean;
  snapshot: { header: RunHeader; steps: Step[] } | null;
  delta: { fromSeq: number; toSeq: number; header: RunHeader; steps: Step[] } | null;
}

export function toFrame(update: RunUpdatesSubscription["runUpdates"]): RunFrame {
  const { storeEpoch, snapshot, delta, asOf, ...rest } = update;
  return {
    ...rest,
    epoch: storeEpoch,
    asOf: instant(asOf),
    snapshot: snapshot && { header: toHeader(snapshot), steps: snapshot.steps.map(toStep) },
    delta: delta && {
      fromSeq: delta.fromSeq,
      toSeq: delta.toSeq,
      header: toHeader(delta.header),
      steps: delta.steps.map(toStep),
    },
  };
}

/** A step of a query without the fields that only queries have: no frame would reset them. */
export function toOpenedStep(step: StepFieldsFragment): Step {
  return toStep(step.pendingRetry ? { ...step, pendingRetry: false, wait: null } : step);
}
