// Fixtures of the gallery and the component tests. All times are relative to NOW, so that two pictures are the same.
import type { Action, PreviewQuery } from "../api/gen/graphql";
import type { Attempt, Availability, RunHeader, Signal, Step } from "../api/model";
import type { BulkPreviewed } from "../bulk/useBulkPreview";
import type { RunFrame } from "../runstate/frame";
import { RunStore } from "../runstate/store";

export const NOW = Date.parse("2026-11-21T03:12:07.000Z");
export const RUN = "01KAHW3V5Z8N2M4Q6R7S9T0V7F3A";
export const SEQ = 1284;

const CAUSE: NonNullable<RunHeader["rootCause"]> = {
  stepId: "stg_orders",
  stepName: null,
  logicalAttemptId: 2,
  code: "DBT_TEST_FAILED",
  category: "USER",
  message: "not_null_stg_orders_id: Got 3 results, configured to fail if != 0",
  retryable: false,
  firstSeq: 1251,
  blockedSteps: 14,
  heldSteps: 14,
};

export function header(over: Partial<RunHeader> = {}): RunHeader {
  return {
    runId: RUN,
    tenantId: "acme",
    projectId: "shop",
    environmentId: "prod",
    parentRunId: null,
    status: "RUNNING",
    statusRaw: "RUNNING",
    substatus: null,
    message: null,
    runSeq: SEQ,
    storeEpoch: "1",
    opsRev: 7,
    plan: { planId: "nightly", planVersion: "1.4.2", sha256: "9f2c4be1".repeat(8) },
    triggeredBy: "ana",
    createdAt: NOW - 12 * 60_000 - 6_000,
    startedAt: NOW - 12 * 60_000 - 4_000,
    completedAt: null,
    totalDurationMs: null,
    stepCounts: { total: 60, pending: 14, running: 2, success: 41, failed: 1, skipped: 2, stopped: 0, kept: 0 },
    failedSteps: 1,
    rootCause: CAUSE,
    cancellation: null,
    pause: null,
    deadline: null,
    retryDeadline: null,
    retryWindowMs: 600_000,
    queue: null,
    waitsForApprovals: null,
    engine: { provider: "TEMPORAL", workflowId: `dvt-${RUN}` },
    ...over,
  };
}

/** A run in each status. */
export const RUNS: Record<string, RunHeader> = {
  queued: header({
    status: "PENDING",
    statusRaw: "PENDING",
    substatus: "QUEUED",
    startedAt: null,
    rootCause: null,
    failedSteps: 0,
    stepCounts: { total: 0, pending: 0, running: 0, success: 0, failed: 0, skipped: 0, stopped: 0, kept: 0 },
  }),
  pending: header({ status: "PENDING", statusRaw: "PENDING", startedAt: null, rootCause: null, failedSteps: 0 }),
  approved: header({ status: "APPROVED", statusRaw: "APPROVED", startedAt: null, rootCause: null, failedSteps: 0 }),
  running: header({
    rootCause: null,
    failedSteps: 0,
    stepCounts: { total: 60, pending: 17, running: 2, success: 41, failed: 0, skipped: 0, stopped: 0, kept: 0 },
  }),
  awaitingOperator: header({ substatus: "AWAITING_OPERATOR", retryDeadline: NOW + 400_000 }),
  waitingManual: header({ substatus: "WAITING_MANUAL", rootCause: null, failedSteps: 0 }),
  compensating: header({ substatus: "COMPENSATING" }),
  draining: header({
    status: "PAUSED",
    statusRaw: "PAUSED",
    substatus: "DRAINING",
    rootCause: null,
    failedSteps: 0,
    pause: { requestedBy: "ops", reason: "warehouse maintenance", since: NOW - 30_000, draining: 2 },
  }),
  paused: header({
    status: "PAUSED",
    statusRaw: "PAUSED",
    rootCause: null,
    failedSteps: 0,
    pause: { requestedBy: "ops", reason: "warehouse maintenance", since: NOW - 30_000, draining: 0 },
  }),
  completed: header({
    status: "COMPLETED",
    statusRaw: "COMPLETED",
    rootCause: null,
    failedSteps: 0,
    completedAt: NOW - 60_000,
    totalDurationMs: 664_000,
    stepCounts: { total: 60, pending: 0, running: 0, success: 58, failed: 0, skipped: 2, stopped: 0, kept: 0 },
  }),
  failed: header({ status: "FAILED", statusRaw: "FAILED", completedAt: NOW - 60_000, totalDurationMs: 664_000 }),
  cancelled: header({
    status: "CANCELLED",
    statusRaw: "CANCELLED",
    rootCause: null,
    cancellation: {
      signalId: "ui-cancel",
      signalType: "CANCEL",
      actor: "ben",
      reason: "wrong day",
      code: null,
      at: NOW - 60_000,
      runSeq: 1290,
    },
    completedAt: NOW - 60_000,
    totalDurationMs: 664_000,
  }),
  unknown: header({ status: "UNKNOWN", statusRaw: "HIBERNATING", rootCause: null, failedSteps: 0 }),
};

export function attempt(over: Partial<Attempt> = {}): Attempt {
  return {
    logicalAttemptId: 1,
    engineAttemptId: 1,
    status: "FAILED",
    statusRaw: "FAILED",
    startedAt: NOW - 600_000,
    completedAt: NOW - 538_000,
    durationMs: 62_000,
    lastTryMs: null,
    startedSeq: 1002,
    endedSeq: 1100,
    error: { code: "DBT_TEST_FAILED", message: CAUSE.message, retryable: false, category: "USER", source: "dbt" },
    skip: null,
    ...over,
  };
}

export function step(stepId: string, over: Partial<Step> = {}): Step {
  return {
    stepId,
    type: "DBT_TEST",
    name: null,
    group: "staging",
    dependsOn: [],
    status: "SUCCESS",
    statusRaw: "SUCCESS",
    substatus: null,
    logicalAttemptId: 1,
    engineAttemptId: 1,
    startedAt: NOW - 600_000,
    completedAt: NOW - 538_000,
    durationMs: 62_000,
    error: null,
    artifacts: [],
    skip: null,
    result: null,
    keptFrom: null,
    nodeCounts: null,
    pendingRetry: false,
    attempts: [attempt({ status: "SUCCESS", statusRaw: "SUCCESS", error: null })],
    taskQueue: "tq-data-prod",
    resourceClass: null,
    changedSeq: 1100,
    wait: null,
    ...over,
  };
}

const failed = attempt().error;

/** A step in each status, with its data. */
export const STEPS: Step[] = [
  step("src_orders", {
    artifacts: [
      {
        uri: "dvt://artifacts/acme/7f3a/manifest.json",
        kind: "dbt-manifest",
        sha256: "ab".repeat(32),
        sizeBytes: 48_201,
      },
    ],
    result: { rows: 41_207, warnings: [] },
  }),
  step("stg_orders", {
    dependsOn: ["src_orders"],
    status: "FAILED",
    statusRaw: "FAILED",
    logicalAttemptId: 2,
    engineAttemptId: 3,
    error: failed,
    attempts: [
      attempt(),
      attempt({
        logicalAttemptId: 2,
        engineAttemptId: 3,
        startedAt: NOW - 253_000,
        completedAt: NOW - 195_000,
        durationMs: 58_000,
        lastTryMs: 12_000,
        startedSeq: 1201,
        endedSeq: 1251,
      }),
    ],
    changedSeq: 1251,
  }),
  step("stg_customers_with_a_name_that_is_much_longer_than_any_column_of_any_table_here", {
    dependsOn: ["src_orders"],
    status: "RUNNING",
    statusRaw: "RUNNING",
    completedAt: null,
    durationMs: null,
    attempts: [
      attempt({
        status: "RUNNING",
        statusRaw: "RUNNING",
        completedAt: null,
        durationMs: null,
        error: null,
        endedSeq: null,
      }),
    ],
  }),
  step("retried", { status: "FAILED", statusRaw: "FAILED", pendingRetry: true, error: failed }),
  step("orders", {
    dependsOn: ["stg_orders"],
    status: "PENDING",
    statusRaw: "PENDING",
    startedAt: null,
    completedAt: null,
    durationMs: null,
    attempts: [],
    wait: {
      kind: "FAILED_STEP",
      since: NOW - 195_000,
      until: null,
      blockingSteps: ["stg_orders"],
      who: null,
      taskQueue: null,
    },
  }),
  step("sign_off", {
    type: "MANUAL",
    status: "PENDING",
    statusRaw: "PENDING",
    startedAt: null,
    completedAt: null,
    durationMs: null,
    attempts: [],
    wait: {
      kind: "PERSON",
      since: NOW - 195_000,
      until: NOW + 600_000,
      blockingSteps: [],
      who: "@finance",
      taskQueue: null,
    },
  }),
  step("notify", {
    status: "SKIPPED",
    statusRaw: "SKIPPED",
    startedAt: null,
    completedAt: null,
    durationMs: null,
    skip: { reason: "its condition was false", reasonCode: "CONDITION" },
    attempts: [],
  }),
  step("odd", { status: "UNKNOWN", statusRaw: "NAPPING" }),
];

export function store(head: RunHeader, over: Partial<RunFrame> = {}, steps: Step[] = STEPS): RunStore {
  const made = new RunStore(() => NOW);
  made.receive({
    sync: "LIVE",
    reason: null,
    runSeq: head.runSeq,
    headSeq: head.runSeq,
    epoch: "1",
    opsRev: head.opsRev,
    asOf: NOW,
    lagMs: 140,
    reset: false,
    snapshot: { header: head, steps },
    delta: null,
    ...over,
  });
  return made;
}

export function signal(over: Partial<Signal> = {}): Signal {
  return {
    signalId: `ui-${JSON.stringify(over).length}`,
    runId: RUN,
    type: "RETRY_STEP",
    typeRaw: "RETRY_STEP",
    stepId: "stg_orders",
    actor: "ana",
    reason: "the file is there now",
    decision: "ACCEPTED",
    rejection: null,
    application: "PENDING",
    applicationReason: null,
    duplicate: false,
    acceptedSeq: null,
    appliedSeq: null,
    quiescentSeq: null,
    receivedAt: NOW - 2_000,
    deliveredAt: null,
    appliedAt: null,
    ...over,
  };
}

export const RECEIPTS: Record<string, Signal> = {
  accepted: signal({ signalId: "ui-accepted" }),
  delivered: signal({ signalId: "ui-delivered", application: "DELIVERED", deliveredAt: NOW - 1_952 }),
  applied: signal({
    signalId: "ui-applied",
    application: "APPLIED",
    deliveredAt: NOW - 1_952,
    appliedAt: NOW - 1_600,
    appliedSeq: 1291,
  }),
  quiescent: signal({
    signalId: "ui-quiescent",
    type: "PAUSE",
    typeRaw: "PAUSE",
    stepId: null,
    application: "APPLIED",
    deliveredAt: NOW - 1_952,
    appliedAt: NOW - 1_600,
    appliedSeq: 1291,
    quiescentSeq: 1298,
  }),
  noop: signal({ signalId: "ui-noop", application: "NOOP", applicationReason: "attempt 3 was already running" }),
  notApplied: signal({
    signalId: "ui-not-applied",
    application: "NOT_APPLIED",
    applicationReason: "the run had ended (seq 1290)",
  }),
  rejected: signal({
    signalId: "ui-rejected",
    decision: "REJECTED",
    rejection: { code: "FORBIDDEN", message: "Needs Engineer on shop / prod; you are Operator." },
  }),
  unknown: signal({ signalId: "ui-unknown", type: "UNKNOWN", typeRaw: "DEFRAGMENT", stepId: null }),
};

export function available<A extends Action>(
  action: A,
  over: Partial<Omit<Availability, "action">> = {},
): Availability & { action: A } {
  return {
    action,
    outcome: "APPLY",
    code: null,
    reason: null,
    rule: null,
    requiredRole: null,
    whoCould: [],
    reasonRequired: false,
    strength: "NORMAL",
    ...over,
  };
}

export const REFUSED = available("CANCEL", {
  outcome: "REFUSED",
  code: "FORBIDDEN",
  reason: "You are Operator on shop / prod.",
  requiredRole: "ENGINEER",
  whoCould: ["ana", "@data-eng"],
  rule: "no rule matched; policy v41",
  strength: "STRONG",
});

/** A time in the form of the API. */
export function written(at: number): string {
  return new Date(at).toISOString();
}

export const BULK_PREVIEW: BulkPreviewed = {
  count: 200,
  excluded: [{ code: "NOT_FOUND", reason: "gone", count: 2 }],
  refusals: [{ code: "RUN_TERMINAL", reason: "The run has ended.", count: 3 }],
  samples: [
    { runId: RUN, outcome: "APPLY", code: null, reason: null, changes: [] },
    { runId: `${RUN}1`, outcome: "NOOP", code: null, reason: "It is paused.", changes: [] },
    { runId: `${RUN}2`, outcome: "REFUSED", code: "RUN_TERMINAL", reason: "The run has ended.", changes: [] },
    { runId: `${RUN}3`, outcome: "UNSUPPORTED", code: "NOT_SUPPORTED", reason: null, changes: [] },
  ],
};

/** The answers of the server to the queries of the gallery. */
export const ANSWERS: {
  methods: unknown;
  data: { preview: PreviewQuery["preview"] & { bulk: BulkPreviewed }; [field: string]: unknown };
} = {
  methods: [{ name: "oidc", label: "Acme", url: "/auth/oidc?" }],
  data: {
    viewer: { policyVersion: 41 },
    rightHolders: [{ action: "PAUSE", needs: "You need the Operator role.", names: ["ana", "ben"], more: false }],
    alerts: { pageInfo: { hasNextPage: false }, edges: [] },
    alertSilences: [],
    attention: { edges: [] },
    incidents: { edges: [] },
    plans: { edges: [] },
    queue: { edges: [] },
    runs: {
      edges: [
        {
          node: {
            runId: RUN,
            projectId: "shop",
            environmentId: "prod",
            plan: { planId: "nightly", planVersion: "1.4.2" },
          },
        },
      ],
    },
    run: {
      plan: { planId: "nightly" },
      archive: null,
      artifactList: { total: 0, pageInfo: { hasNextPage: false, endCursor: null }, edges: [] },
      step: {
        attempts: [],
        dbtNodes: {
          total: 19,
          byStatus: [
            { status: "pass", count: 12 },
            { status: "skipped", count: 4 },
            { status: "fail", count: 3 },
          ],
          pageInfo: { hasNextPage: false, endCursor: null },
          edges: [
            {
              node: {
                uniqueId: "test.shop.not_null_stg_orders_id",
                name: "not_null_stg_orders_id",
                resourceType: "test",
                status: "fail",
                executionTimeMs: 840,
                message: "Got 3 results, configured to fail if != 0",
                failures: 3,
                rowsAffected: null,
                compiledSql: "select id from stg_orders where id is null",
                compiledSqlCut: false,
              },
            },
            {
              node: {
                uniqueId: "test.shop.unique_stg_orders_id",
                name: "unique_stg_orders_id",
                resourceType: "test",
                status: "skipped",
                executionTimeMs: 0,
                message: null,
                failures: null,
                rowsAffected: null,
                compiledSql: null,
                compiledSqlCut: false,
              },
            },
          ],
        },
        secrets: [
          {
            provider: "vault",
            key: "warehouse/password",
            version: "3",
            as: "env:DBT_PASSWORD",
            resolved: true,
            answeredBy: "vault",
            answeredVersion: "3",
            readAt: written(NOW - 60_000),
            cached: true,
            code: null,
          },
          {
            provider: "aws",
            key: "warehouse/role",
            version: null,
            as: "file:role",
            resolved: false,
            answeredBy: null,
            answeredVersion: null,
            readAt: written(NOW - 60_000),
            cached: false,
            code: "SECRET_DENIED",
          },
        ],
        inputs: {
          inputs: {
            projectDir: "examples/shop",
            select: "stg_orders",
            vars: { login: { provider: "vault", key: "warehouse/login" }, token: "***" },
          },
          params: { day: "2026-11-20" },
          secrets: [{ provider: "vault", key: "warehouse/password", version: "3" }],
          changes: [
            signal({
              signalId: "ui-override",
              type: "INJECT_OVERRIDE",
              typeRaw: "INJECT_OVERRIDE",
              application: "APPLIED",
              appliedSeq: 1198,
              reason: "only what is late",
            }),
          ],
        },
      },
      request: { steps: 60, params: { day: "2026-11-20" } },
      planDiff: {
        total: 60,
        added: 2,
        removed: 1,
        changed: 3,
        previous: { runId: RUN, planVersion: "1.4.1", createdAt: written(NOW - 86_400_000) },
        parts: [],
        steps: [],
      },
    },
    preview: {
      basedOnSeq: SEQ,
      outcome: "APPLY",
      code: null,
      reason: 'Step "stg_orders" runs again as Retry #2.',
      status: "RUNNING",
      changes: [
        { stepId: "stg_orders", kind: "RERUN", from: "FAILED", to: "RUNNING", why: "It runs again, as Retry #2." },
      ],
      blocked: ["orders", "customers"],
      warnings: ["1 signal is on the way and counted in."],
      bulk: BULK_PREVIEW,
    },
  },
};
