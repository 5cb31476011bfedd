// The states of a bulk, before and after it is sent.
import type { BulkProgressFragment, BulkRowFieldsFragment } from "../api/gen/graphql";
import { ApiError } from "../api/error";
import { type BulkKind, newAction } from "../bulk/action";
import { BulkBar } from "../bulk/BulkBar";
import { BulkDialog } from "../bulk/BulkDialog";
import { BulkMeter } from "../bulk/BulkMeter";
import { BulkPreview } from "../bulk/BulkPreview";
import { BulkRows } from "../bulk/BulkRows";
import { BulkStop } from "../bulk/BulkStop";
import { BULK_PREVIEW, NOW, RUN, RUNS, written } from "../testing/fixtures";
import type { State } from "./state";

const nothing = (): void => {};

function progress(over: Partial<BulkProgressFragment>): BulkProgressFragment {
  return {
    id: "bulk",
    state: "RUNNING",
    action: "CANCEL",
    type: "CANCEL",
    typeRaw: "CANCEL",
    stepId: null,
    payload: null,
    reason: "the source was broken",
    createdAt: written(NOW - 60_000),
    finishedAt: null,
    stoppedAt: null,
    pacedCode: null,
    pacedUntil: null,
    leftOut: 0,
    counts: { total: 200, waiting: 97, accepted: 100, rejected: 2, refused: 1, notSent: 0 },
    applications: { pending: 10, delivered: 20, applied: 64, noop: 4, notApplied: 2 },
    runs: { waiting: 0, running: 30, paused: 0, completed: 2, failed: 4, cancelled: 64 },
    ...over,
  };
}

const ENDED = { total: 200, waiting: 0, accepted: 197, rejected: 2, refused: 1, notSent: 0 };
const STOOD = { total: 200, waiting: 0, accepted: 100, rejected: 2, refused: 1, notSent: 97 };
const METERS: Record<string, BulkProgressFragment> = {
  running: progress({}),
  paced: progress({ state: "PACED", pacedCode: "SIGNAL_RATE_LIMITED", pacedUntil: written(NOW + 12_000) }),
  stopping: progress({ state: "STOPPING", stoppedAt: written(NOW) }),
  stopped: progress({
    state: "STOPPED",
    stoppedAt: written(NOW),
    counts: STOOD,
    applications: { pending: 0, delivered: 0, applied: 94, noop: 4, notApplied: 2 },
  }),
  done: progress({
    state: "DONE",
    finishedAt: written(NOW),
    counts: ENDED,
    applications: { pending: 0, delivered: 0, applied: 191, noop: 4, notApplied: 2 },
  }),
};

function row(no: number, over: Partial<BulkRowFieldsFragment>): BulkRowFieldsFragment {
  return {
    no,
    runId: `${RUN}${no}`,
    projectId: "shop",
    environmentId: no === 1 ? "prod" : "dev",
    outcome: "WAITING",
    outcomeRaw: "WAITING",
    code: null,
    message: null,
    at: null,
    failed: false,
    newRunId: null,
    runStatus: no === 1 ? "FAILED" : "CANCELLED",
    signal: null,
    planId: "nightly",
    causeStep: no === 1 ? "Build payments" : null,
    causeCode: no === 1 ? "EXIT_STATUS" : null,
    causeMessage: no === 1 ? "ERROR: relation raw_orders does not exist" : null,
    ...over,
  };
}

const SENT: BulkRowFieldsFragment["signal"] = {
  signalId: "bulk-1",
  runId: RUN,
  type: "CANCEL",
  typeRaw: "CANCEL",
  stepId: null,
  actor: "ana",
  reason: "the source was broken",
  decision: "ACCEPTED",
  application: "APPLIED",
  applicationReason: null,
  duplicate: false,
  acceptedSeq: 1284,
  appliedSeq: 1291,
  quiescentSeq: null,
  receivedAt: written(NOW - 2_000),
  deliveredAt: written(NOW - 1_952),
  appliedAt: written(NOW - 1_600),
  rejection: null,
};

const ROWS = [
  row(1, { outcome: "ACCEPTED", outcomeRaw: "ACCEPTED", at: written(NOW - 2_000), signal: SENT }),
  row(2, {
    outcome: "REJECTED",
    outcomeRaw: "REJECTED",
    at: written(NOW - 2_000),
    failed: true,
    signal: {
      ...SENT,
      signalId: "bulk-2",
      decision: "REJECTED",
      application: null,
      acceptedSeq: null,
      appliedSeq: null,
      deliveredAt: null,
      appliedAt: null,
      rejection: { code: "RUN_TERMINAL", message: "The run has ended." },
    },
  }),
  row(3, {
    outcome: "REFUSED",
    outcomeRaw: "REFUSED",
    at: written(NOW - 2_000),
    failed: true,
    code: "FORBIDDEN",
    message: "Needs Engineer on shop / prod; you are Operator.",
  }),
  row(4, {}),
  row(5, { outcome: "NOT_SENT", outcomeRaw: "NOT_SENT", at: written(NOW - 1_000) }),
  row(6, { outcome: "UNKNOWN", outcomeRaw: "DEFERRED" }),
];

function dialog(name: string, kind: BulkKind, stepId = ""): State {
  return {
    name: `bulk-${name}`,
    alone: true,
    show: () => <BulkDialog action={newAction(kind, stepId)} runs={{ filter: {} }} onClose={nothing} />,
  };
}

export function bulks(): State[] {
  return [
    {
      name: "bulk-bar",
      show: () => <BulkBar selected={Object.values(RUNS).slice(0, 3)} filter={{}} more clear={nothing} />,
    },
    { name: "bulk-counting", show: () => <BulkPreview preview={null} error={null} /> },
    {
      name: "bulk-none",
      show: () => <BulkPreview preview={{ count: 0, excluded: [], refusals: [], samples: [] }} error={null} />,
    },
    { name: "bulk-counted", show: () => <BulkPreview preview={BULK_PREVIEW} error={null} /> },
    {
      name: "bulk-too-large",
      show: () => (
        <BulkPreview preview={null} error={new ApiError("More than 10,000 runs match.", { code: "BULK_TOO_LARGE" })} />
      ),
    },
    ...Object.entries(METERS).map(([name, bulk]) => ({ name: `bulk-${name}`, show: () => <BulkMeter bulk={bulk} /> })),
    { name: "bulk-rows", show: () => <BulkRows rows={ROWS} /> },
    dialog("pause", "PAUSE"),
    dialog("retry", "RETRY_STEP", "stg_orders"),
    dialog("cancel", "CANCEL"),
    dialog("rerun", "RERUN"),
    { name: "bulk-stop", alone: true, show: () => <BulkStop id="bulk" waiting={97} onClose={nothing} /> },
  ];
}
