/* eslint-disable */
/** Internal type. DO NOT USE DIRECTLY. */
type Exact<T extends { [key: string]: unknown }> = { [K in keyof T]: T[K] };
/** Internal type. DO NOT USE DIRECTLY. */
export type Incremental<T> = T | { [P in keyof T]?: P extends ' $fragmentName' | '__typename' ? T[P] : never };
import type { DocumentTypeDecoration } from '@graphql-typed-document-node/core';
export type AcknowledgeAlertInput = {
  id: string | number;
  /** At most 1,000 bytes. */
  note?: string | null | undefined;
  /** The client's name for this request; the audit has it. */
  requestId: string;
};

/** An action that a principal may be allowed to do. */
export type Action =
  | 'ANNOTATE'
  | 'APPROVE'
  | 'CANCEL'
  | 'COMPLETE_MANUAL_STEP'
  | 'CREATE_TOKEN'
  | 'DEBUG'
  | 'EMERGENCY_STOP'
  | 'ESCALATE_ALERT'
  | 'FREEZE_TENANT'
  | 'INJECT_OVERRIDE'
  | 'MANAGE_TOKENS'
  | 'PAUSE'
  | 'READ'
  | 'READ_AUDIT'
  | 'READ_DEAD_LETTERS'
  | 'READ_POLICY'
  | 'REDRIVE'
  | 'RERUN'
  | 'RESUME'
  | 'RETRY_STEP'
  | 'SET_ENGINE_MODE'
  | 'SET_POLICY'
  | 'SET_QUOTA'
  | 'SKIP_STEP'
  | 'START'
  | 'UPDATE_PARAMS'
  | 'UPDATE_TARGET';

/** One action with its target. */
export type ActionInput =
  {   approve: ApproveActionInput; bulk?: never; cancel?: never; completeManualStep?: never; rerun?: never; signal?: never; start?: never; }
  |  { approve?: never;   bulk: BulkPreviewInput; cancel?: never; completeManualStep?: never; rerun?: never; signal?: never; start?: never; }
  |  { approve?: never; bulk?: never;   cancel: CancelActionInput; completeManualStep?: never; rerun?: never; signal?: never; start?: never; }
  |  { approve?: never; bulk?: never; cancel?: never;   completeManualStep: CompleteManualStepInput; rerun?: never; signal?: never; start?: never; }
  |  { approve?: never; bulk?: never; cancel?: never; completeManualStep?: never;   rerun: RerunInput; signal?: never; start?: never; }
  |  { approve?: never; bulk?: never; cancel?: never; completeManualStep?: never; rerun?: never;   signal: SignalActionInput; start?: never; }
  |  { approve?: never; bulk?: never; cancel?: never; completeManualStep?: never; rerun?: never; signal?: never;   start: StartRunInput; };

export type ActionOutcome =
  | 'APPLY'
  | 'NOOP'
  | 'REFUSED'
  | 'UNSUPPORTED';

/** How strong the confirmation by a person should be. */
export type ActionStrength =
  | 'NORMAL'
  | 'REVERSIBLE'
  | 'STRONG';

export type AddRunNoteInput = {
  body: string;
  requestId: string;
  runId: string;
};

/** Empty fields do not restrict. */
export type AlertFilter = {
  code?: string | null | undefined;
  levels?: Array<AlertLevel> | null | undefined;
  projectId?: string | null | undefined;
  runId?: string | null | undefined;
  /** Only alerts raised at or after it. */
  since?: string | null | undefined;
  stages?: Array<AlertStage> | null | undefined;
};

export type AlertLevel =
  | 'HIGH'
  | 'LOW'
  | 'MEDIUM';

export type AlertStage =
  | 'ACKNOWLEDGED'
  /** Nobody has acknowledged it. */
  | 'OPEN'
  /** The state is left. */
  | 'RESOLVED';

export type ApproveActionInput = {
  /** Which decision to preview. */
  decision?: Decision;
  runId: string;
};

export type ApproveRunInput = {
  decision?: Decision;
  expectedRunSeq?: number | null | undefined;
  /** At most 1,024 characters; required to reject. */
  reason?: string | null | undefined;
  requestId: string;
  runId: string;
};

export type ArtifactRetentionInput = {
  days: number;
  kind: string;
};

export type AttentionKind =
  /** The run waits for approval, and is refused at `deadline`. */
  | 'APPROVAL'
  /** A step failed and the retry window is open: the run fails at `deadline` unless somebody acts. */
  | 'FAILED_WAITING'
  /** The run missed the deadline of its plan, or takes longer than nine of ten earlier runs of the plan in the same project and environment. */
  | 'LATE'
  /** A MANUAL step waits for a person, and expires at `deadline`. */
  | 'MANUAL_TASK';

/** Empty fields do not restrict. */
export type AuditFilter = {
  /** Part of the action, in any case; `retry step` stands for RETRY_STEP. */
  action?: string | null | undefined;
  /** Part of the name of who acted, in any case. */
  actor?: string | null | undefined;
  /** Included. */
  from?: string | null | undefined;
  /** ACCEPTED, REJECTED, DENIED, … */
  outcome?: string | null | undefined;
  /** The whole id of the request, as the receipt of a change has it. */
  requestId?: string | null | undefined;
  /** The id of a run, or its beginning. */
  runId?: string | null | undefined;
  /** false leaves out the rows SEAL_LOG, with which dvt seals the logs of runs; the numbers then have gaps. */
  seals?: boolean | null | undefined;
  /** Excluded. */
  to?: string | null | undefined;
};

export type BackpressureStrategy =
  /** Runs over the quota are accepted and start when a token becomes available. */
  | 'DELAY'
  /** Runs over the quota wait in the queue. */
  | 'QUEUE'
  /** Runs over the quota are refused with QUOTA_EXCEEDED. */
  | 'REJECT';

export type BreakGlassInput = {
  minutes: number;
  /** At most 1,000 bytes; it stands in the audit. */
  reason: string;
  /** Client key, alphabet [A-Za-z0-9_.-], at most 128; it stands in the audit. */
  requestId: string;
  role: Role;
};

/** The action of a bulk, for each of its runs. */
export type BulkActionInput =
  {   cancel: BulkCancelInput; rerun?: never; signal?: never; }
  |  { cancel?: never;   rerun: BulkRerunInput; signal?: never; }
  |  { cancel?: never; rerun?: never;   signal: SignalInput; };

export type BulkCancelInput = {
  reason?: string | null | undefined;
};

export type BulkOutcome =
  /** The signal was accepted, and the receipt has its progress; with RERUN, `newRunId` exists. */
  | 'ACCEPTED'
  /** The bulk was stopped before the signal was sent. */
  | 'NOT_SENT'
  /** Refused for another reason, see `code`; there is no receipt. */
  | 'REFUSED'
  /** Rejected because of the state of the run; the receipt has the reason. */
  | 'REJECTED'
  | 'UNKNOWN'
  /** It was not sent yet. */
  | 'WAITING';

export type BulkPreviewInput = {
  action: BulkActionInput;
  runs: BulkRunsInput;
};

/**
 * A rerun of each run. Runs that have not ended are REFUSED, and so are runs without one of the steps. Runs that have a newer
 * rerun are left out, so that no load runs twice; a rerun that was cancelled does not count, unless it is selected too.
 */
export type BulkRerunInput = {
  /** Rerun also the runs that have a newer rerun. */
  alreadyRerun?: boolean | null | undefined;
  from: RerunFromInput;
  /** Parameters of all new runs, at most 64 KiB; null for those of each run. A hidden value given as `***` is refused with BAD_USER_INPUT. */
  params?: unknown;
  reason?: string | null | undefined;
};

/** The selection of the runs of a bulk. */
export type BulkRunsInput =
  {   /** The runs for which one of the viewer's bulks has failed so far: REJECTED, REFUSED, or NOT_APPLIED. */
  failedOf: string | number; filter?: never; ids?: never; }
  |  { failedOf?: never;   /** All runs that match now. */
  filter: RunFilter; ids?: never; }
  |  { failedOf?: never; filter?: never;   /** runIds, 1 to 5,000. Those that do not exist or are not the viewer's are left out. */
  ids: Array<string>; };

export type BulkState =
  /** Each run has its outcome; receipts may still change. */
  | 'DONE'
  /** It waits before it continues; `pacedCode` is the reason. */
  | 'PACED'
  /** Signals are being sent. */
  | 'RUNNING'
  /** It was stopped: some runs got no signal. Receipts of the others may still change. */
  | 'STOPPED'
  /** It was stopped, and the remaining runs are not marked NOT_SENT yet. */
  | 'STOPPING';

export type CancelActionInput = {
  runId: string;
};

export type CancelBulkInput = {
  id: string | number;
  /** At most 1,000 bytes; it stands in the audit. */
  reason: string;
  /** Client key, alphabet [A-Za-z0-9_.-], at most 128; it stands in the audit. */
  requestId: string;
};

export type CancelRunInput = {
  expectedRunSeq?: number | null | undefined;
  reason?: string | null | undefined;
  runId: string;
  signalId: string;
};

export type CauseKind =
  /** A person ended it. */
  | 'END'
  /** Not meant to be. */
  | 'FAULT'
  /** Meant: a decision, a person or a limit that somebody set ends it. */
  | 'WAIT';

export type ChangeRunTagsInput = {
  /** At most 20. */
  add?: Array<string> | null | undefined;
  /** At most 20. Tags that the run does not have are ignored, and a tag that is also in `add` is removed. */
  remove?: Array<string> | null | undefined;
  requestId: string;
  runId: string;
};

export type ComparedChange =
  /** Only `b` has the step. */
  | 'ADDED'
  /** The number of attempts. */
  | 'ATTEMPTS'
  /** The error code of the newest attempt. */
  | 'ERROR'
  /** In `a` it took at least 25 % and at least 1 s longer. */
  | 'FASTER'
  /** Only `a` has the step. */
  | 'REMOVED'
  /** In `b` it took at least 25 % and at least 1 s longer. */
  | 'SLOWER'
  | 'STATUS';

export type CompleteManualStepInput = {
  /** If given, it must be the caller. */
  actor?: string | null | undefined;
  /** When the work was done, if earlier than now. */
  completedAt?: string | null | undefined;
  /** Addresses of evidence, at most 50. */
  evidenceRefs?: Array<string> | null | undefined;
  expectedRunSeq?: number | null | undefined;
  notes?: string | null | undefined;
  outcome: ManualOutcome;
  runId: string;
  stepId: string;
  /** Token of the open task; see manualTasks. */
  token: string;
};

export type Confidence =
  /** The record says it. */
  | 'CERTAIN'
  /** The facts have no other usual explanation. */
  | 'LIKELY'
  /** It happened at the same time. */
  | 'POSSIBLE';

export type CreateTokenInput = {
  /** At most one year from now; null: in 90 days. */
  expiresAt?: string | null | undefined;
  /** 1 to 20. */
  grants: Array<TokenGrantInput>;
  /** A name for people, at most 100 bytes. */
  name: string;
  /** Client key, alphabet [A-Za-z0-9_.-], at most 128; it stands in the audit. */
  requestId: string;
  /** Makes the token for the principal `service/NAME`, which has no account; the policy gives it rights. Null: for the viewer. */
  service?: string | null | undefined;
};

/** The selection of dead letters. */
export type DeadLettersInput =
  {   /** The open ones of the tenant, the newest 200; `true`. */
  allOpen: boolean; ids?: never; runId?: never; }
  |  { allOpen?: never;   /** Ids of DeadLetter, 1 to 200. */
  ids: Array<string | number>; runId?: never; }
  |  { allOpen?: never; ids?: never;   /** The open ones of one run, the newest 200. */
  runId: string; };

export type DecideErasureInput = {
  /** False cancels the request, also one that was confirmed and has not begun. */
  confirm: boolean;
  id: string | number;
  reason: string;
  /** Client key, alphabet [A-Za-z0-9_.-], at most 128; it stands in the audit. */
  requestId: string;
};

export type Decision =
  | 'APPROVE'
  | 'REJECT';

export type DeleteViewInput = {
  id: string;
};

/** Empty fields do not restrict. */
export type DeliveryFilter = {
  codes?: Array<string> | null | undefined;
  levels?: Array<AlertLevel> | null | undefined;
  projects?: Array<string> | null | undefined;
  tenants?: Array<string> | null | undefined;
  /** events, alerts */
  topics?: Array<string> | null | undefined;
  types?: Array<string> | null | undefined;
};

export type DeliveryOrderKind =
  | 'REDRIVE'
  | 'REPLAY'
  | 'TEST'
  | 'UNKNOWN';

export type DeliveryOrderState =
  | 'DONE'
  /** `error` says why. */
  | 'FAILED'
  | 'RUNNING'
  | 'UNKNOWN'
  /** No process has taken it up yet, or the destination is disabled. */
  | 'WAITING';

export type DestinationKind =
  | 'EMAIL'
  | 'FILE'
  | 'PAGERDUTY'
  | 'SLACK'
  | 'SYSLOG'
  | 'UNKNOWN'
  | 'WEBHOOK';

export type DestinationState =
  /** A person disabled it, or it answered that it wants no more messages (410). */
  | 'DISABLED'
  /** It has accepted nothing since `since`; messages wait and are sent again. */
  | 'FAILING'
  /** It is no longer in the file. */
  | 'REMOVED'
  /** A process works for it and it accepts messages. */
  | 'SENDING'
  | 'UNKNOWN'
  /** No process works for it; messages wait. */
  | 'WAITING';

export type DrainWorkerInput = {
  account: string;
  /** true: the worker begins no further steps; false: it begins some again. */
  drain: boolean;
  reason: string;
  requestId: string;
  worker: string;
};

export type EmergencyStopInput = {
  /** End the execution in the engine at once, without its cooperation: running attempts end as TERMINATED, and their programs may go on for a while. */
  forceKill?: boolean | null | undefined;
  reason: string;
};

export type EndBreakGlassInput = {
  /** Client key, alphabet [A-Za-z0-9_.-], at most 128; recorded in the audit. */
  requestId: string;
};

export type EndSilenceInput = {
  id: string | number;
  requestId: string;
};

export type EngineMode =
  /** No new run starts, and running ones go on to their end. After that the installation may be stopped. */
  | 'DRAINED'
  | 'NORMAL'
  /** No new run starts and nothing is published: viewers read the store. Runs in progress continue. */
  | 'READ_ONLY';

export type ErasureKind =
  /** One person. */
  | 'SUBJECT'
  /** Everything of the tenant. */
  | 'TENANT';

/** What an erasure waits for. */
export type ErasureWait =
  /** Nobody confirmed it in time: ask again, or cancel it. */
  | 'ANOTHER_REQUEST'
  /** A legal hold forbids it. */
  | 'LEGAL_HOLD'
  /** Open runs or bulks name the person, see openWork: they have to end, and the owner runs the command again. */
  | 'OPEN_WORK'
  /** The owner of the database has to carry it out: `dvt store erase ID`. */
  | 'OWNER'
  /** Another person has to confirm it, until expiresAt. */
  | 'SECOND_PERSON';

export type EscalateAlertInput = {
  level: AlertLevel;
  note?: string | null | undefined;
};

export type EvidenceSource =
  | 'ENGINE'
  | 'EVENT'
  | 'HEALTH'
  /** Earlier runs of the same plan. */
  | 'HISTORY'
  /** A line that the step printed. */
  | 'OUTPUT'
  | 'QUEUE'
  | 'SIGNALS'
  /** The workers that poll a queue. */
  | 'WORKERS';

export type FailureCategory =
  | 'PLATFORM'
  | 'SYSTEM'
  | 'TIMEOUT'
  | 'UNKNOWN'
  | 'USER';

/** What a forecast rests on. */
export type ForecastBasis =
  /** Earlier runs had every step that is still to end. */
  | 'PLAN_RUNS'
  /** The plan changed: a step that no earlier run had counts like earlier steps with its name, or of its type. */
  | 'SIMILAR_STEPS'
  | 'UNKNOWN';

/** Why a run has no forecast. */
export type ForecastGapReason =
  /** The run failed and undoes its steps. */
  | 'COMPENSATES'
  /** The run has not started, or has ended. */
  | 'NOT_RUNNING'
  | 'PAUSED'
  /** Fewer runs than `needed` have completed. */
  | 'TOO_FEW_RUNS'
  | 'UNKNOWN'
  /** No earlier step is like a step that is still to end. */
  | 'UNKNOWN_STEPS'
  /** A person must complete a step that is still to end. */
  | 'WAITS_FOR_PERSON'
  /** A step failed, and a person decides about it. */
  | 'WAITS_FOR_RETRY';

export type FreezeTenantInput = {
  frozen: boolean;
  reason: string;
  requestId: string;
  /** Null: the viewer's own. */
  tenantId?: string | null | undefined;
};

export type HealthStatus =
  | 'DEGRADED'
  | 'HEALTHY'
  | 'UNHEALTHY';

export type HoldKind =
  /** Every run of a plan. */
  | 'PLAN'
  /** One run. */
  | 'RUN'
  /** Every run that a person started, signalled, decided about or wrote a note to. */
  | 'SUBJECT';

export type IncidentAct =
  | 'ACKNOWLEDGE'
  | 'CLOSE'
  | 'NOTE'
  | 'SEVERITY';

export type IncidentNoteInput = {
  id: string | number;
  /** At most 1,000 bytes; only acknowledgeIncident takes an empty one. */
  note?: string | null | undefined;
  /** The client's name for this request; the audit has it. */
  requestId: string;
};

export type IncidentSeverity =
  /** An escape, a confirmed leak, a breach between tenants. */
  | 'SEV_0'
  /** dvt is down, or data may be wrong. */
  | 'SEV_1'
  /** A part is down, or runs stand still. */
  | 'SEV_2'
  /** dvt is slow or full. */
  | 'SEV_3';

export type IncidentSeverityInput = {
  id: string | number;
  /** At most 1,000 bytes. */
  note: string;
  /** The client's name for this request; the audit has it. */
  requestId: string;
  severity: IncidentSeverity;
};

export type InjectOverrideInput = {
  /** A merge patch (RFC 7396) of the step's inputs, for attempts that start from now on; at most 1 MiB. The resulting inputs must be valid for the step's type and contain no secrets. */
  override: unknown;
  reason: string;
  stepId: string;
};

export type LiftHoldInput = {
  id: string;
  reason: string;
  requestId: string;
};

export type LinkArtifactInput = {
  requestId: string;
  runId: string;
  uri: string;
};

/** The logs to search. */
export type LogSearchInput =
  {   plan: LogSearchPlanInput; runId?: never; }
  |  { plan?: never;   runId: string; };

export type LogSearchPlanInput = {
  environmentId: string;
  /** The number of its newest runs, at most 20. */
  newest?: number | null | undefined;
  planId: string;
  projectId: string;
};

export type ManualOutcome =
  | 'CANCELLED'
  | 'FAILED'
  | 'SUCCEEDED';

export type MigrationHintInput = {
  sourceVersion: string;
  targetVersion: string;
  transformScript?: string | null | undefined;
};

/** The status of a node, the same for every version of dbt. */
export type NodeStatus =
  /** Also of a test that failed. */
  | 'FAILED'
  | 'RUNNING'
  | 'SKIPPED'
  /** Also of a test that passed. */
  | 'SUCCESS'
  /** The attempt ended before the node did. */
  | 'UNFINISHED'
  | 'WARN';

export type PauseInput = {
  reason?: string | null | undefined;
};

export type PlaceHoldInput = {
  kind: HoldKind;
  reason: string;
  requestId: string;
  /** From 1 to 256 bytes. */
  subject: string;
};

export type PlanChange =
  | 'ADDED'
  | 'CHANGED'
  | 'REMOVED';

export type PlanInput =
  {   /** The plan document itself. It is validated at once and stored under its hash. */
  inline: unknown; ref?: never; }
  |  { inline?: never;   /** A plan at an address. A control activity fetches and checks it. */
  ref: PlanRefInput; };

/** What a person can do next about a plan, the most urgent first. */
export type PlanNext =
  /** A run waits for approval. */
  | 'APPROVE'
  /** A run waits for a person to complete a step. */
  | 'COMPLETE'
  /** The newest run FAILED. */
  | 'RERUN'
  /** A run is paused. */
  | 'RESUME'
  /** A run waits for an operator after a failed step. */
  | 'RETRY'
  | 'START'
  /** A run is active. */
  | 'WATCH';

export type PlanRefInput = {
  /** `gzip` or `none`. The sha256 and the size are those of the stored bytes, compressed or not. */
  compression?: string | null | undefined;
  /** The time after which the bytes need not be at their addresses. A new run is refused from then on, and a run that has not read its plan by then fails with PLAN_FETCH_FAILED. */
  expiresAt?: string | null | undefined;
  migrationHint?: MigrationHintInput | null | undefined;
  /** At most 2 further addresses of the same bytes. dvt tries three times, `uri` first, then these in turn. */
  mirrors?: Array<string> | null | undefined;
  planId: string;
  planVersion: string;
  /** The versions through which the planner brought the document to schemaVersion, such as `v1.0 → v1.1 → v1.2`; the last one is schemaVersion. */
  schemaEvolutionPath?: string | null | undefined;
  schemaVersion: string;
  sha256: string;
  /** The number of bytes at the addresses, before decompression. */
  sizeBytes?: number | null | undefined;
  uri: string;
};

export type PolicyApprovalInput = {
  environmentId?: string;
  projectId?: string;
  required: number;
};

export type PolicyBreakGlassInput = {
  maxMinutes: number;
  principal: string;
  role: string;
};

export type PolicyGrantInput = {
  /** true keeps the mark of a role that was taken by break-glass. */
  breakGlass?: boolean;
  environmentId?: string;
  expiresAt?: string | null | undefined;
  principal: string;
  projectId?: string;
  role: string;
};

/** At most 10,000 rules, grants, approvals, break-glass entries and ceilings of sandboxes together, and 200 grants of one principal. */
export type PolicyInput = {
  approvals?: Array<PolicyApprovalInput>;
  breakGlass?: Array<PolicyBreakGlassInput>;
  grants: Array<PolicyGrantInput>;
  /** Null: the defaults of dvt, which may change with an upgrade. */
  rules?: Array<PolicyRuleInput> | null | undefined;
  /** Null keeps the current ceilings, so that a client that does not know them removes none. */
  sandbox?: Array<PolicySandboxInput> | null | undefined;
  sod?: PolicySodInput;
};

export type PolicyRuleInput = {
  action: string;
  environmentId?: string;
  projectId?: string;
  role: string;
};

/** A field that is null or 0 sets no bound. */
export type PolicySandboxInput = {
  /** An empty list permits no connection; null permits every destination that the egress rules permit. */
  connect?: Array<string> | null | undefined;
  cpu?: number | null | undefined;
  disk?: number | null | undefined;
  environmentId?: string;
  memory?: number | null | undefined;
  pids?: number | null | undefined;
  projectId?: string;
  require?: Array<string>;
};

export type PolicySodInput = {
  approve?: boolean;
  completeManual?: boolean;
  /** A plan cannot lift completeManual by `sod: false`. */
  completeManualInEveryPlan?: boolean;
};

export type ProjectQuotaInput = {
  limits?: QuotaLimitsInput;
  projectId: string;
  weight?: number;
};

export type QueueWait =
  /** The mode of the engine or a freeze of the tenant. */
  | 'HOLD'
  /** A free slot: the maximum number of runs is active. */
  | 'PLACE'
  /** Tokens of its tenant or project. */
  | 'QUOTA'
  /** The runs before it. */
  | 'TURN';

export type QuotaAction =
  | 'HEAVY_STEP'
  | 'SIGNAL'
  | 'START_RUN';

/** From 0 to the limit of the tier. 0 permits nothing. */
export type QuotaLimitsInput = {
  heavyStepsPerMinute?: number | null | undefined;
  maxActive?: number | null | undefined;
  maxQueueDepth?: number | null | undefined;
  signalOpsPerMinute?: number | null | undefined;
  startRunPerMinute?: number | null | undefined;
};

/** At most 1,000 projects. */
export type QuotaSettingsInput = {
  projects?: Array<ProjectQuotaInput>;
  strategy?: BackpressureStrategy | null | undefined;
  tenant?: QuotaLimitsInput | null | undefined;
  /** From 1,000 to 86,400,000. */
  ttlMs?: number | null | undefined;
};

export type RedriveDeadLettersInput = {
  letters: DeadLettersInput;
  /** Client key, alphabet [A-Za-z0-9_.-], at most 128; it stands in the audit. */
  requestId: string;
};

/** Either `ids` or `all: true`. */
export type RedriveDeliveriesInput = {
  all?: boolean | null | undefined;
  ids?: Array<string | number> | null | undefined;
  name: string;
  reason: string;
  requestId: string;
};

export type RedriveOutcome =
  /** The message had been published before; nothing was done. */
  | 'ALREADY_REDRIVEN'
  /** The dead letter is unchanged. */
  | 'FAILED'
  /** The message was published now. */
  | 'REDRIVEN';

export type ReplayDestinationInput = {
  filter?: DeliveryFilter | null | undefined;
  name: string;
  reason: string;
  requestId: string;
  since: string;
  /** Messages before it; default: now. */
  until?: string | null | undefined;
};

export type RequestErasureInput = {
  /** For the audit and for the person who confirms it. */
  reason: string;
  /** Client key, alphabet [A-Za-z0-9_.-], at most 128; it stands in the audit. */
  requestId: string;
  /** The principal to erase; null: the whole tenant. */
  subject?: string | null | undefined;
  /** The viewer's tenant. Required when the whole tenant is to be erased, so that nobody erases another one by mistake. */
  tenantId?: string | null | undefined;
};

/** The steps that run again. The new run takes over the outputs of the others. */
export type RerunFromInput =
  {   /** The steps that did not succeed, and their dependants; `true`. */
  failed: boolean; start?: never; steps?: never; }
  |  { failed?: never;   /** All steps; `true`. */
  start: boolean; steps?: never; }
  |  { failed?: never; start?: never;   /** These steps and their dependants, and the steps that did not succeed. */
  steps: Array<string>; };

export type RerunInput = {
  from: RerunFromInput;
  /** Parameters of the new run, at most 64 KiB; null for those of the run. The results that it keeps were computed with the earlier ones. A hidden value given as `***` is refused with BAD_USER_INPUT: leave params out to keep it. */
  params?: unknown;
  reason?: string | null | undefined;
  /** The run that has ended. */
  runId: string;
  /** Client key of the new run, alphabet [A-Za-z0-9_.-], at most 128. */
  runRequestId: string;
};

export type ResumeInput = {
  reason?: string | null | undefined;
};

/** A null value is that of the installation. From 0 to 36,500. */
export type RetentionDaysInput = {
  alerts?: number | null | undefined;
  archiveRuns?: number | null | undefined;
  /** At most one of each kind. Kinds that are not named have the days of the installation. */
  artifacts?: Array<ArtifactRetentionInput>;
  /** 0, or at least 365. */
  audit?: number | null | undefined;
  deadLetters?: number | null | undefined;
  /** More than archiveRuns, which it needs. */
  deleteArchives?: number | null | undefined;
  receipts?: number | null | undefined;
  stepLogs?: number | null | undefined;
};

/**
 * The nodes of a dbt step that a retry runs again. The server computes them from the manifest and the results of the latest
 * attempt, and writes them with the signal; they do not change any more. The step succeeds when, with them, all of its nodes
 * have ended well. Codes: NODES_NOT_DBT, NODES_NO_MANIFEST, NODES_MANIFEST_GONE, NODES_OTHER_MANIFEST, NODES_NONE;
 * BAD_USER_INPUT with a violation for each id that cannot be retried.
 */
export type RetryNodesInput =
  {   mode: RetryNodesMode; uniqueIds?: never; }
  |  { mode?: never;   /** dbt's unique ids, at most 1,000, such as `model.shop.orders`. */
  uniqueIds: Array<string>; };

export type RetryNodesMode =
  /** The nodes that failed or did not end, and those that dbt skipped because of them. */
  | 'FAILED'
  /** The same, and the models, seeds and snapshots that a failed test tests, with their tests that the step has run: they are built again. */
  | 'FAILED_AND_THEIR_TESTED_PARENTS';

export type RetryStepInput = {
  /** The failed attempt to retry; default the latest. */
  expectedLogicalAttemptId?: number | null | undefined;
  /** Retry even if the policy forbids it; audited. */
  force?: boolean | null | undefined;
  /** Only these nodes of a dbt step; default the whole step. `preview` names them. */
  nodes?: RetryNodesInput | null | undefined;
  reason?: string | null | undefined;
  stepId: string;
};

export type RevokeTokenInput = {
  /** At most 1,000 bytes; it stands in the audit. */
  reason: string;
  /** Client key, alphabet [A-Za-z0-9_.-], at most 128; it stands in the audit. */
  requestId: string;
  tokenId: string;
};

export type Role =
  | 'ADMIN'
  | 'ENGINEER'
  | 'OPERATOR'
  | 'PLANNER'
  | 'SRE'
  | 'SYSTEM'
  | 'VIEWER';

export type RunFilter = {
  /**
   * True adds the runs with a failed step that await an operator (substatus AWAITING_OPERATOR) to those with one of `statuses`.
   * Without `statuses`: only them.
   */
  awaitingOperator?: boolean | null | undefined;
  createdFrom?: string | null | undefined;
  createdTo?: string | null | undefined;
  environmentId?: string | null | undefined;
  planId?: string | null | undefined;
  projectId?: string | null | undefined;
  statuses?: Array<RunStatus> | null | undefined;
  /** The run has exactly this tag. Together with `statuses` the cost grows with the number of runs that have the tag. */
  tag?: string | null | undefined;
  /** Beginning of a runId, or part of a planId. */
  text?: string | null | undefined;
  /** The principal that started the runs; `me` is the viewer. */
  triggeredBy?: string | null | undefined;
};

/** The order of a list of runs. Each but the creation lists only the runs that have what it orders by. */
export type RunOrder =
  | 'CREATED_ASC'
  | 'CREATED_DESC'
  | 'DURATION_ASC'
  /** Runs that started and ended, the longest one first. */
  | 'DURATION_DESC'
  | 'ENDED_ASC'
  /** Runs that have ended, the last one first. */
  | 'ENDED_DESC'
  /** Runs that await an operator, the one whose retry window closes first. */
  | 'TIME_LEFT_ASC'
  | 'TIME_LEFT_DESC';

export type RunStatus =
  | 'APPROVED'
  | 'CANCELLED'
  | 'COMPLETED'
  | 'FAILED'
  | 'PAUSED'
  | 'PENDING'
  | 'RUNNING'
  | 'UNKNOWN';

export type RunSubstatus =
  | 'AWAITING_OPERATOR'
  | 'COMPENSATING'
  | 'DRAINING'
  | 'QUEUED'
  | 'UNKNOWN'
  | 'WAITING_MANUAL';

export type SaveViewInput = {
  id: string;
  /** 1 to 60 characters. */
  name: string;
  projectId?: string | null | undefined;
  /** At most 2,000 bytes. */
  query: string;
};

/** Empty fields do not restrict. */
export type SecretAccessFilter = {
  /** Included. */
  from?: string | null | undefined;
  /** The whole key, as the plan has it. */
  key?: string | null | undefined;
  provider?: string | null | undefined;
  runId?: string | null | undefined;
  stepId?: string | null | undefined;
  /** Excluded. */
  to?: string | null | undefined;
};

export type SetEngineModeInput = {
  mode: EngineMode;
  reason: string;
  requestId: string;
};

export type SetPolicyInput = {
  document: PolicyInput;
  /** The version that the document was made from. */
  expectedVersion: number;
  /** At most 1,000 bytes; it stands in the audit. */
  reason: string;
  /** Client key, alphabet [A-Za-z0-9_.-], at most 128; it stands in the audit. */
  requestId: string;
};

export type SetQuotaInput = {
  expectedVersion: number;
  reason: string;
  requestId: string;
  settings: QuotaSettingsInput;
};

export type SetRetentionInput = {
  expectedVersion: number;
  policy: RetentionDaysInput;
  reason: string;
  requestId: string;
};

export type SetShareLinksInput = {
  /** From 0 (no links) to 168. */
  hours: number;
  reason: string;
  requestId: string;
};

export type ShareRunInput = {
  requestId: string;
  runId: string;
};

export type SignalActionInput = {
  runId: string;
  signal: SignalInput;
};

export type SignalApplication =
  | 'APPLIED'
  | 'DELIVERED'
  | 'NOOP'
  | 'NOT_APPLIED'
  | 'PENDING';

export type SignalDecision =
  | 'ACCEPTED'
  | 'REJECTED';

export type SignalInput =
  {   emergencyStop: EmergencyStopInput; escalateAlert?: never; injectOverride?: never; pause?: never; resume?: never; retryStep?: never; skipStep?: never; updateParams?: never; updateTarget?: never; }
  |  { emergencyStop?: never;   escalateAlert: EscalateAlertInput; injectOverride?: never; pause?: never; resume?: never; retryStep?: never; skipStep?: never; updateParams?: never; updateTarget?: never; }
  |  { emergencyStop?: never; escalateAlert?: never;   injectOverride: InjectOverrideInput; pause?: never; resume?: never; retryStep?: never; skipStep?: never; updateParams?: never; updateTarget?: never; }
  |  { emergencyStop?: never; escalateAlert?: never; injectOverride?: never;   pause: PauseInput; resume?: never; retryStep?: never; skipStep?: never; updateParams?: never; updateTarget?: never; }
  |  { emergencyStop?: never; escalateAlert?: never; injectOverride?: never; pause?: never;   resume: ResumeInput; retryStep?: never; skipStep?: never; updateParams?: never; updateTarget?: never; }
  |  { emergencyStop?: never; escalateAlert?: never; injectOverride?: never; pause?: never; resume?: never;   retryStep: RetryStepInput; skipStep?: never; updateParams?: never; updateTarget?: never; }
  |  { emergencyStop?: never; escalateAlert?: never; injectOverride?: never; pause?: never; resume?: never; retryStep?: never;   skipStep: SkipStepInput; updateParams?: never; updateTarget?: never; }
  |  { emergencyStop?: never; escalateAlert?: never; injectOverride?: never; pause?: never; resume?: never; retryStep?: never; skipStep?: never;   updateParams: UpdateParamsInput; updateTarget?: never; }
  |  { emergencyStop?: never; escalateAlert?: never; injectOverride?: never; pause?: never; resume?: never; retryStep?: never; skipStep?: never; updateParams?: never;   updateTarget: UpdateTargetInput; };

export type SignalRunInput = {
  /** Refuse with RUN_MOVED if the target of the signal has changed since this runSeq. */
  expectedRunSeq?: number | null | undefined;
  runId: string;
  signal: SignalInput;
  /** Client key, alphabet [A-Za-z0-9_.-], at most 128. */
  signalId: string;
};

export type SignalRunsInput = {
  action: BulkActionInput;
  /** The number of runs, as `preview` counted them. */
  expectedCount: number;
  /** At most 1,000 bytes; kept in the audit, and used for each run unless the action has a reason of its own. */
  reason: string;
  /** Client key, alphabet [A-Za-z0-9_.-], at most 128; it stands in the audit. */
  requestId: string;
  runs: BulkRunsInput;
};

export type SignalType =
  | 'CANCEL'
  | 'COMPLETE_MANUAL_STEP'
  | 'EMERGENCY_STOP'
  | 'ESCALATE_ALERT'
  | 'INJECT_OVERRIDE'
  | 'PAUSE'
  | 'RESUME'
  | 'RETRY_STEP'
  | 'SKIP_STEP'
  | 'UNKNOWN'
  | 'UPDATE_PARAMS'
  | 'UPDATE_TARGET';

export type SilenceAlertsInput = {
  code?: string | null | undefined;
  planId?: string | null | undefined;
  projectId?: string | null | undefined;
  /** 1 to 1,000 bytes. */
  reason: string;
  requestId: string;
  runId?: string | null | undefined;
  /** In the future, at most 30 days from now. */
  until: string;
};

export type SkipStepInput = {
  reason?: string | null | undefined;
  /** A PENDING or FAILED step; its dependants go on as if it had succeeded. */
  stepId: string;
};

export type SlotScope =
  | 'INSTALLATION'
  | 'PROJECT'
  | 'TENANT';

export type StartRunInput = {
  environmentId: string;
  /** Parameters of the run, at most 64 KiB. COMMAND and dbt steps find them in the JSON file that DVT_PARAMS_FILE names. dbt steps also get the members as vars; vars of the step override them. A hidden value given as `***` is refused with BAD_USER_INPUT. */
  params?: unknown;
  plan: PlanInput;
  /** From 0 to 9: while runs wait, a higher one starts first within a project. */
  priority?: number;
  projectId: string;
  /** Client key, alphabet [A-Za-z0-9_.-], at most 128. */
  runRequestId: string;
};

export type StepChangeKind =
  /** The step is told to stop. */
  | 'CANCEL'
  /** Later attempts get other inputs. */
  | 'CHANGE'
  /** The step starts again, as a new attempt. */
  | 'RERUN'
  /** The outputs are taken over from the earlier run. */
  | 'REUSE'
  /** The step starts. */
  | 'SCHEDULE'
  /** The step will never run. */
  | 'SKIP';

export type StepStatus =
  | 'FAILED'
  | 'PENDING'
  | 'RUNNING'
  | 'SKIPPED'
  | 'SUCCESS'
  | 'UNKNOWN';

export type SwitchDestinationInput = {
  name: string;
  reason: string;
  requestId: string;
};

export type SyncReason =
  | 'BUS_DEGRADED'
  | 'EPOCH_CHANGED'
  | 'GAP'
  | 'PROJECTOR_LAG'
  | 'RECONNECTED'
  | 'SLOW_CONSUMER'
  | 'STORE_DOWN'
  | 'TAIL_LOSS';

export type SyncState =
  /** The frame shows the head of the log as of `asOf`. */
  | 'LIVE'
  /** The view is being brought up to date. */
  | 'RESYNCING'
  /** The frame may be behind; `reason` is the cause. */
  | 'STALE'
  /** The view is being compared with the head. */
  | 'VERIFYING';

/** Where a dbt step writes; at least one member. Other steps have no target: use injectOverride. */
export type TargetInput = {
  /** The value of the var dvt_target_database, which the dbt profile must read. */
  destinationDb?: string | null | undefined;
  /** The value of the var dvt_target_schema, which the dbt profile must read. */
  schema?: string | null | undefined;
};

export type TestDestinationInput = {
  name: string;
  requestId: string;
};

export type TokenGrantInput = {
  environmentId?: string;
  projectId?: string;
  role: Role;
};

export type TryOutcome =
  | 'FAILED'
  /** The worker was stopped; another one tries again. */
  | 'INTERRUPTED'
  /** The worker reported no end. */
  | 'LOST'
  | 'RUNNING'
  /** Somebody stopped the step, or paused or ended the run. */
  | 'STOPPED'
  | 'SUCCEEDED'
  | 'UNKNOWN';

export type UpdateParamsInput = {
  /** Parameters to set or, with null, to remove (a merge patch, RFC 7396), for attempts that start from now on; at most 1 MiB. Members that look like a secret are refused. */
  newParams: unknown;
  reason?: string | null | undefined;
  /** Only this step; default the whole run. */
  stepId?: string | null | undefined;
};

export type UpdateTargetInput = {
  newTarget: TargetInput;
  reason: string;
  stepId: string;
};

/**
 * QUOTA, JOURNAL and STORE of a step, and RETRY of a running one, are known only on run(runId:); in subscriptions and lists of
 * runs such a step waits for a WORKER, or runs.
 */
export type WaitKind =
  /** Only of runs: the run waits for people to approve it. */
  | 'APPROVAL'
  | 'DEPENDENCIES'
  /** Only of runs: the run is paused and steps are still running. */
  | 'DRAIN'
  /** Only of runs: the engine does not answer, or has not started the run yet. */
  | 'ENGINE'
  /** A step that it needs, directly or not, is FAILED. */
  | 'FAILED_STEP'
  /** A step that it does not need is FAILED; until somebody retries or skips that step, nothing new starts in the run. */
  | 'FAIL_FAST'
  /** A worker does not reach the journal of the server, or has no access to it. */
  | 'JOURNAL'
  | 'PAUSED'
  | 'PERSON'
  /** Only of runs: the engine loads the plan. */
  | 'PLAN_FETCH'
  /** Only of runs: the run waits for a slot, for its turn, or for the end of a hold. */
  | 'QUEUE'
  /** The quota of heavy steps, or that of starts, is used up for now. */
  | 'QUOTA'
  /**
   * A person retried the failed step, and its new attempt has not started. Or a try of a running step failed, and the engine
   * tries it again at `until`, or when a worker is free; then nothing works on the step.
   */
  | 'RETRY'
  /** The store does not answer the workers. */
  | 'STORE'
  | 'WORKER';

export type AlertFieldsFragment = { id: string, level: AlertLevel, stage: AlertStage, code: string | null, note: string, meaning: string | null, whatToDo: string | null, installation: boolean, projectId: string | null, environmentId: string | null, planId: string | null, runId: string | null, stepId: string | null, subject: string | null, shared: boolean, actor: string, count: number, raisedAt: string, lastSeenAt: string, resolvedAt: string | null, resolution: string | null, acknowledgedAt: string | null, acknowledgedBy: string | null, acknowledgement: string | null, silencedUntil: string | null, whoCould: Array<string>, page: string };

export type AlertsQueryVariables = Exact<{
  filter: AlertFilter;
  first: number;
}>;


export type AlertsQuery = { alerts: { pageInfo: { hasNextPage: boolean }, edges: Array<{ node: { id: string, level: AlertLevel, stage: AlertStage, code: string | null, note: string, meaning: string | null, whatToDo: string | null, installation: boolean, projectId: string | null, environmentId: string | null, planId: string | null, runId: string | null, stepId: string | null, subject: string | null, shared: boolean, actor: string, count: number, raisedAt: string, lastSeenAt: string, resolvedAt: string | null, resolution: string | null, acknowledgedAt: string | null, acknowledgedBy: string | null, acknowledgement: string | null, silencedUntil: string | null, whoCould: Array<string>, page: string } }> } };

export type AlertSilencesQueryVariables = Exact<{ [key: string]: never; }>;


export type AlertSilencesQuery = { alertSilences: Array<{ id: string, code: string | null, projectId: string | null, runId: string | null, planId: string | null, actor: string, reason: string, until: string }> };

export type AlertUpdatesSubscriptionVariables = Exact<{ [key: string]: never; }>;


export type AlertUpdatesSubscription = { alertUpdates: { count: number | null } };

export type AcknowledgeAlertMutationVariables = Exact<{
  input: AcknowledgeAlertInput;
}>;


export type AcknowledgeAlertMutation = { acknowledgeAlert: { alert: { id: string } } };

export type SilenceAlertsMutationVariables = Exact<{
  input: SilenceAlertsInput;
}>;


export type SilenceAlertsMutation = { silenceAlerts: { silence: { id: string } } };

export type EndSilenceMutationVariables = Exact<{
  input: EndSilenceInput;
}>;


export type EndSilenceMutation = { endSilence: { change: { requestId: string } } };

export type RunTraceQueryVariables = Exact<{
  runId: string;
}>;


export type RunTraceQuery = { run: { traceId: string } | null };

export type AlertCountQueryVariables = Exact<{ [key: string]: never; }>;


export type AlertCountQuery = { viewer: { alertCount: number } };

export type ArtifactFieldsFragment = { uri: string, kind: string, sha256: string | null, sizeBytes: number | null, contentType: string | null, expiresAt: string | null, downloadUrl: string | null, fileName: string | null, stepId: string | null, attempt: number | null };

export type ArtifactsQueryVariables = Exact<{
  runId: string;
  stepId?: string | null | undefined;
  kinds?: Array<string> | string | null | undefined;
  first: number;
  after?: string | null | undefined;
}>;


export type ArtifactsQuery = { run: { artifactList: { total: number, edges: Array<{ cursor: string, node: { uri: string, kind: string, sha256: string | null, sizeBytes: number | null, contentType: string | null, expiresAt: string | null, downloadUrl: string | null, fileName: string | null, stepId: string | null, attempt: number | null } }>, pageInfo: { hasNextPage: boolean, endCursor: string | null } } } | null };

export type ArtifactOfRunQueryVariables = Exact<{
  runId: string;
  stepId?: string | null | undefined;
  first: number;
}>;


export type ArtifactOfRunQuery = { run: { plan: { planId: string }, artifactList: { edges: Array<{ node: { uri: string, kind: string, sha256: string | null, sizeBytes: number | null, contentType: string | null, expiresAt: string | null, downloadUrl: string | null, fileName: string | null, stepId: string | null, attempt: number | null } }> } } | null };

export type LinkArtifactMutationVariables = Exact<{
  input: LinkArtifactInput;
}>;


export type LinkArtifactMutation = { linkArtifact: { path: string, expiresAt: string } };

export type AttentionFieldsFragment = { kind: AttentionKind, runId: string, projectId: string, environmentId: string, planId: string, planVersion: string, stepId: string | null, logicalAttemptId: number | null, stepName: string | null, since: string, deadline: string | null, expectedBy: string | null, code: string | null, message: string | null, heldSteps: number, blockedSteps: number, failedSteps: number, approvals: number | null, approvalsRequired: number | null, actions: Array<Action>, whoCould: Array<string>, stuck: boolean };

export type AttentionCountSubscriptionVariables = Exact<{ [key: string]: never; }>;


export type AttentionCountSubscription = { attentionUpdates: { count: number | null } };

export type AttentionUpdatesSubscriptionVariables = Exact<{
  first: number;
}>;


export type AttentionUpdatesSubscription = { attentionUpdates: { sync: SyncState, reason: SyncReason | null, asOf: string | null, count: number | null, items: Array<{ kind: AttentionKind, runId: string, projectId: string, environmentId: string, planId: string, planVersion: string, stepId: string | null, logicalAttemptId: number | null, stepName: string | null, since: string, deadline: string | null, expectedBy: string | null, code: string | null, message: string | null, heldSteps: number, blockedSteps: number, failedSteps: number, approvals: number | null, approvalsRequired: number | null, actions: Array<Action>, whoCould: Array<string>, stuck: boolean }> | null } };

export type LastFailureQueryVariables = Exact<{ [key: string]: never; }>;


export type LastFailureQuery = { runs: { edges: Array<{ node: { runId: string, completedAt: string | null, plan: { planId: string } } }> } };

export type RunCountsQueryVariables = Exact<{
  filters: Array<RunFilter> | RunFilter;
}>;


export type RunCountsQuery = { runCounts: Array<number> };

export type RunTagsQueryVariables = Exact<{
  runIds: Array<string> | string;
}>;


export type RunTagsQuery = { runTags: Array<{ runId: string, tags: Array<string>, notes: number }> };

export type RunNotesQueryVariables = Exact<{
  runId: string;
}>;


export type RunNotesQuery = { runTags: Array<{ runId: string, tags: Array<string> }>, runNotes: Array<{ no: number, author: string, at: string, body: string }> };

export type ChangeRunTagsMutationVariables = Exact<{
  input: ChangeRunTagsInput;
}>;


export type ChangeRunTagsMutation = { changeRunTags: { tags: Array<string>, change: { action: string, requestId: string, actor: string, at: string, version: number | null, versionBefore: number | null } | null } };

export type AddRunNoteMutationVariables = Exact<{
  input: AddRunNoteInput;
}>;


export type AddRunNoteMutation = { addRunNote: { note: { no: number }, change: { action: string, requestId: string, actor: string, at: string, version: number | null, versionBefore: number | null } } };

export type SavedViewsQueryVariables = Exact<{ [key: string]: never; }>;


export type SavedViewsQuery = { savedViews: Array<{ viewId: string, yours: boolean, owner: string, projectId: string | null, name: string, query: string }> };

export type SaveViewMutationVariables = Exact<{
  input: SaveViewInput;
}>;


export type SaveViewMutation = { saveView: { view: { viewId: string }, change: { action: string, requestId: string, actor: string, at: string, version: number | null, versionBefore: number | null } } };

export type DeleteViewMutationVariables = Exact<{
  input: DeleteViewInput;
}>;


export type DeleteViewMutation = { deleteView: { deleted: boolean, change: { action: string, requestId: string, actor: string, at: string, version: number | null, versionBefore: number | null } | null } };

export type FailedLatelyQueryVariables = Exact<{
  createdFrom: string;
  first: number;
}>;


export type FailedLatelyQuery = { failed: { pageInfo: { hasNextPage: boolean }, edges: Array<{ node: { runId: string, parentRunId: string | null, projectId: string, environmentId: string, createdAt: string, completedAt: string | null, plan: { planId: string, planVersion: string }, rootCause: { stepId: string | null, stepName: string | null, code: string, message: string | null } | null } }> }, completed: { edges: Array<{ node: { runId: string, parentRunId: string | null, projectId: string, environmentId: string, createdAt: string, plan: { planId: string } } }> }, open: { edges: Array<{ node: { runId: string, parentRunId: string | null, createdAt: string } }> } };

export type FailedRunFieldsFragment = { runId: string, parentRunId: string | null, projectId: string, environmentId: string, createdAt: string, completedAt: string | null, plan: { planId: string, planVersion: string }, rootCause: { stepId: string | null, stepName: string | null, code: string, message: string | null } | null };

export type RunsNowQueryVariables = Exact<{ [key: string]: never; }>;


export type RunsNowQuery = { runCounts: Array<number> };

export type OrderFieldsFragment = { id: string, kind: DeliveryOrderKind, state: DeliveryOrderState, actor: string, reason: string | null, at: string, endedAt: string | null, messages: number, sent: number, failed: number, error: string | null, since: string | null, until: string | null };

export type DestinationFieldsFragment = { name: string, kind: DestinationKind | null, address: string | null, state: DestinationState, why: string, since: string | null, disabledBy: string | null, beginsAt: string | null, lastSentAt: string | null, lastError: string | null, sent: number, failed: number, deadLetters: number, droppedDeadLetters: number, missedRuns: number, waiting: number, oldestWaitingAt: string | null, route: { text: string } | null };

export type DestinationsQueryVariables = Exact<{ [key: string]: never; }>;


export type DestinationsQuery = { destinations: Array<{ name: string, kind: DestinationKind | null, address: string | null, state: DestinationState, why: string, since: string | null, disabledBy: string | null, beginsAt: string | null, lastSentAt: string | null, lastError: string | null, sent: number, failed: number, deadLetters: number, droppedDeadLetters: number, missedRuns: number, waiting: number, oldestWaitingAt: string | null, route: { text: string } | null }> };

export type DestinationQueryVariables = Exact<{
  name: string;
}>;


export type DestinationQuery = { destination: { name: string, kind: DestinationKind | null, address: string | null, state: DestinationState, why: string, since: string | null, disabledBy: string | null, beginsAt: string | null, lastSentAt: string | null, lastError: string | null, sent: number, failed: number, deadLetters: number, droppedDeadLetters: number, missedRuns: number, waiting: number, oldestWaitingAt: string | null, orders: Array<{ id: string, kind: DeliveryOrderKind, state: DeliveryOrderState, actor: string, reason: string | null, at: string, endedAt: string | null, messages: number, sent: number, failed: number, error: string | null, since: string | null, until: string | null }>, route: { text: string } | null } | null };

export type DeadDeliveriesQueryVariables = Exact<{
  name: string;
  first: number;
  after?: string | null | undefined;
}>;


export type DeadDeliveriesQuery = { deadDeliveries: { pageInfo: { endCursor: string | null, hasNextPage: boolean }, edges: Array<{ node: { id: string, messageId: string, type: string, at: string, tenantId: string | null, runId: string | null, tries: number, error: string, message: unknown } }> } };

export type PreviewReplayQueryVariables = Exact<{
  name: string;
  since: string;
  until?: string | null | undefined;
  filter?: DeliveryFilter | null | undefined;
}>;


export type PreviewReplayQuery = { previewReplay: { messages: number, more: boolean, first: string | null, last: string | null } };

export type OrderPayloadFragment = { order: { id: string, kind: DeliveryOrderKind, state: DeliveryOrderState, actor: string, reason: string | null, at: string, endedAt: string | null, messages: number, sent: number, failed: number, error: string | null, since: string | null, until: string | null }, change: { action: string, requestId: string, actor: string, at: string, version: number | null, versionBefore: number | null } };

export type TestDestinationMutationVariables = Exact<{
  input: TestDestinationInput;
}>;


export type TestDestinationMutation = { testDestination: { order: { id: string, kind: DeliveryOrderKind, state: DeliveryOrderState, actor: string, reason: string | null, at: string, endedAt: string | null, messages: number, sent: number, failed: number, error: string | null, since: string | null, until: string | null }, change: { action: string, requestId: string, actor: string, at: string, version: number | null, versionBefore: number | null } } };

export type ReplayDestinationMutationVariables = Exact<{
  input: ReplayDestinationInput;
}>;


export type ReplayDestinationMutation = { replayDestination: { order: { id: string, kind: DeliveryOrderKind, state: DeliveryOrderState, actor: string, reason: string | null, at: string, endedAt: string | null, messages: number, sent: number, failed: number, error: string | null, since: string | null, until: string | null }, change: { action: string, requestId: string, actor: string, at: string, version: number | null, versionBefore: number | null } } };

export type RedriveDeliveriesMutationVariables = Exact<{
  input: RedriveDeliveriesInput;
}>;


export type RedriveDeliveriesMutation = { redriveDeliveries: { order: { id: string, kind: DeliveryOrderKind, state: DeliveryOrderState, actor: string, reason: string | null, at: string, endedAt: string | null, messages: number, sent: number, failed: number, error: string | null, since: string | null, until: string | null }, change: { action: string, requestId: string, actor: string, at: string, version: number | null, versionBefore: number | null } } };

export type EnableDestinationMutationVariables = Exact<{
  input: SwitchDestinationInput;
}>;


export type EnableDestinationMutation = { enableDestination: { change: { action: string, requestId: string, actor: string, at: string, version: number | null, versionBefore: number | null } | null } };

export type DisableDestinationMutationVariables = Exact<{
  input: SwitchDestinationInput;
}>;


export type DisableDestinationMutation = { disableDestination: { change: { action: string, requestId: string, actor: string, at: string, version: number | null, versionBefore: number | null } | null } };

export type RunCausesQueryVariables = Exact<{
  runId: string;
}>;


export type RunCausesQuery = { run: { diagnosis: Array<{ code: string, kind: CauseKind, confidence: Confidence, title: string, stepIds: Array<string>, moreSteps: number, since: string | null, until: string | null, evidence: Array<{ source: EvidenceSource, text: string, runSeq: number | null, stepId: string | null, logicalAttemptId: number | null, line: number | null, page: string, metric: string | null }>, next: Array<{ text: string, signalType: SignalType | null, stepId: string | null, safe: boolean, force: boolean }> }> } | null };

export type NeedSomebodyQueryVariables = Exact<{
  first: number;
}>;


export type NeedSomebodyQuery = { attention: { edges: Array<{ node: { runId: string, planId: string } }> } };

export type ErasureFieldsFragment = { id: string, kind: ErasureKind, subject: string | null, reason: string, requestedBy: string | null, requestedAt: string, expiresAt: string, confirmedBy: string | null, confirmedAt: string | null, cancelledBy: string | null, cancelledAt: string | null, startedAt: string | null, phase: string | null, finishedAt: string | null, waitsFor: ErasureWait | null, holds: number, dueAt: string, openWorkCount: number, openWorkAt: string | null, certificate: string | null, openWork: Array<{ runId: string | null, bulkId: string | null, projectId: string | null, environmentId: string | null, planId: string | null, status: RunStatus | null }>, erased: Array<{ place: string, count: number }> };

export type ErasuresQueryVariables = Exact<{
  first: number;
  after?: string | null | undefined;
}>;


export type ErasuresQuery = { erasures: { edges: Array<{ node: { id: string, kind: ErasureKind, subject: string | null, reason: string, requestedBy: string | null, requestedAt: string, expiresAt: string, confirmedBy: string | null, confirmedAt: string | null, cancelledBy: string | null, cancelledAt: string | null, startedAt: string | null, phase: string | null, finishedAt: string | null, waitsFor: ErasureWait | null, holds: number, dueAt: string, openWorkCount: number, openWorkAt: string | null, certificate: string | null, openWork: Array<{ runId: string | null, bulkId: string | null, projectId: string | null, environmentId: string | null, planId: string | null, status: RunStatus | null }>, erased: Array<{ place: string, count: number }> } }>, pageInfo: { endCursor: string | null, hasNextPage: boolean } } };

export type PreviewErasureQueryVariables = Exact<{
  subject?: string | null | undefined;
}>;


export type PreviewErasureQuery = { preview: { kind: ErasureKind, holds: number, missing: Array<string>, erased: Array<{ place: string, count: number, more: boolean }>, remaining: Array<{ place: string, count: number, more: boolean }> } };

export type RequestErasureMutationVariables = Exact<{
  input: RequestErasureInput;
}>;


export type RequestErasureMutation = { requestErasure: { erasure: { id: string }, change: { action: string, requestId: string, actor: string, at: string, version: number | null, versionBefore: number | null } | null } };

export type DecideErasureMutationVariables = Exact<{
  input: DecideErasureInput;
}>;


export type DecideErasureMutation = { decideErasure: { change: { action: string, requestId: string, actor: string, at: string, version: number | null, versionBefore: number | null } | null } };

export type IncidentFieldsFragment = { id: string, severity: IncidentSeverity, code: string | null, title: string, whatToDo: string | null, runbook: string, installation: boolean, projectId: string | null, environmentId: string | null, runId: string | null, openedAt: string, acknowledgedAt: string | null, acknowledgedBy: string | null, closedAt: string | null, closedBy: string | null, alerts: number, openAlerts: number };

export type IncidentsQueryVariables = Exact<{
  openOnly: boolean;
  first: number;
  after?: string | null | undefined;
}>;


export type IncidentsQuery = { incidents: { pageInfo: { endCursor: string | null, hasNextPage: boolean }, edges: Array<{ node: { id: string, severity: IncidentSeverity, code: string | null, title: string, whatToDo: string | null, runbook: string, installation: boolean, projectId: string | null, environmentId: string | null, runId: string | null, openedAt: string, acknowledgedAt: string | null, acknowledgedBy: string | null, closedAt: string | null, closedBy: string | null, alerts: number, openAlerts: number } }> } };

export type RunIncidentsQueryVariables = Exact<{
  runId: string;
}>;


export type RunIncidentsQuery = { incidents: { edges: Array<{ node: { id: string, severity: IncidentSeverity, title: string, acknowledgedBy: string | null, closedAt: string | null } }> } };

export type IncidentQueryVariables = Exact<{
  id: string | number;
}>;


export type IncidentQuery = { incident: { id: string, severity: IncidentSeverity, code: string | null, title: string, whatToDo: string | null, runbook: string, installation: boolean, projectId: string | null, environmentId: string | null, runId: string | null, openedAt: string, acknowledgedAt: string | null, acknowledgedBy: string | null, closedAt: string | null, closedBy: string | null, alerts: number, openAlerts: number, notes: Array<{ at: string, actor: string, act: IncidentAct, severity: IncidentSeverity | null, text: string }> } | null, incidentAlerts: Array<{ id: string, level: AlertLevel, stage: AlertStage, code: string | null, note: string, meaning: string | null, whatToDo: string | null, installation: boolean, projectId: string | null, environmentId: string | null, planId: string | null, runId: string | null, stepId: string | null, subject: string | null, shared: boolean, actor: string, count: number, raisedAt: string, lastSeenAt: string, resolvedAt: string | null, resolution: string | null, acknowledgedAt: string | null, acknowledgedBy: string | null, acknowledgement: string | null, silencedUntil: string | null, whoCould: Array<string>, page: string }> };

export type IncidentChangeFragment = { change: { action: string, requestId: string, actor: string, at: string, version: number | null, versionBefore: number | null } };

export type AcknowledgeIncidentMutationVariables = Exact<{
  input: IncidentNoteInput;
}>;


export type AcknowledgeIncidentMutation = { acknowledgeIncident: { change: { action: string, requestId: string, actor: string, at: string, version: number | null, versionBefore: number | null } } };

export type NoteIncidentMutationVariables = Exact<{
  input: IncidentNoteInput;
}>;


export type NoteIncidentMutation = { noteIncident: { change: { action: string, requestId: string, actor: string, at: string, version: number | null, versionBefore: number | null } } };

export type CloseIncidentMutationVariables = Exact<{
  input: IncidentNoteInput;
}>;


export type CloseIncidentMutation = { closeIncident: { change: { action: string, requestId: string, actor: string, at: string, version: number | null, versionBefore: number | null } } };

export type SetIncidentSeverityMutationVariables = Exact<{
  input: IncidentSeverityInput;
}>;


export type SetIncidentSeverityMutation = { setIncidentSeverity: { change: { action: string, requestId: string, actor: string, at: string, version: number | null, versionBefore: number | null } } };

export type ErrorOfStepFragment = { code: string, message: string | null, retryable: boolean, category: FailureCategory | null, source: string | null };

export type StepFieldsFragment = { stepId: string, type: string, name: string | null, group: string | null, dependsOn: Array<string>, status: StepStatus, statusRaw: string, substatus: RunSubstatus | null, logicalAttemptId: number, engineAttemptId: number | null, startedAt: string | null, completedAt: string | null, durationMs: number | null, result: unknown, keptFrom: string | null, pendingRetry: boolean, taskQueue: string | null, resourceClass: string | null, changedSeq: number, error: { code: string, message: string | null, retryable: boolean, category: FailureCategory | null, source: string | null } | null, artifacts: Array<{ uri: string, kind: string, sha256: string | null, sizeBytes: number | null }>, skip: { reason: string | null, reasonCode: string } | null, attempts: Array<{ logicalAttemptId: number, engineAttemptId: number, status: StepStatus, statusRaw: string, startedAt: string | null, completedAt: string | null, durationMs: number | null, lastTryMs: number | null, startedSeq: number | null, endedSeq: number | null, error: { code: string, message: string | null, retryable: boolean, category: FailureCategory | null, source: string | null } | null, skip: { reason: string | null, reasonCode: string } | null }>, nodeCounts: { total: number, running: number, success: number, warn: number, failed: number, skipped: number, unfinished: number } | null, wait: { kind: WaitKind, since: string | null, until: string | null, blockingSteps: Array<string>, who: string | null, taskQueue: string | null } | null };

export type RunRowFragment = { runId: string, projectId: string, environmentId: string, status: RunStatus, statusRaw: string, substatus: RunSubstatus | null, message: string | null, runSeq: number, storeEpoch: string, opsRev: number, triggeredBy: string | null, createdAt: string, startedAt: string | null, completedAt: string | null, totalDurationMs: number | null, failedSteps: number, deadline: string | null, retryDeadline: string | null, plan: { planId: string, planVersion: string, sha256: string }, stepCounts: { total: number, pending: number, running: number, success: number, failed: number, skipped: number, stopped: number, kept: number }, rootCause: { stepId: string | null, stepName: string | null, logicalAttemptId: number | null, code: string, category: FailureCategory | null, message: string | null, retryable: boolean, firstSeq: number, blockedSteps: number, heldSteps: number } | null, cancellation: { signalId: string | null, signalType: SignalType | null, actor: string | null, reason: string | null, code: string | null, at: string, runSeq: number } | null, pause: { requestedBy: string | null, reason: string | null, since: string, draining: number } | null, waitsForApprovals: { given: number, required: number } | null, queue: { status: string, createdAt: string, notBefore: string | null, attempts: number } | null };

export type RunLookFieldsFragment = { status: RunStatus, statusRaw: string, substatus: RunSubstatus | null, pause: { requestedBy: string | null, reason: string | null, since: string, draining: number } | null };

export type StepLookFieldsFragment = { status: StepStatus, statusRaw: string, pendingRetry: boolean, logicalAttemptId: number };

export type RunHeaderFragment = { retryWindowMs: number | null, tenantId: string, parentRunId: string | null, runId: string, projectId: string, environmentId: string, status: RunStatus, statusRaw: string, substatus: RunSubstatus | null, message: string | null, runSeq: number, storeEpoch: string, opsRev: number, triggeredBy: string | null, createdAt: string, startedAt: string | null, completedAt: string | null, totalDurationMs: number | null, failedSteps: number, deadline: string | null, retryDeadline: string | null, engine: { provider: string, workflowId: string } | null, plan: { planId: string, planVersion: string, sha256: string }, stepCounts: { total: number, pending: number, running: number, success: number, failed: number, skipped: number, stopped: number, kept: number }, rootCause: { stepId: string | null, stepName: string | null, logicalAttemptId: number | null, code: string, category: FailureCategory | null, message: string | null, retryable: boolean, firstSeq: number, blockedSteps: number, heldSteps: number } | null, cancellation: { signalId: string | null, signalType: SignalType | null, actor: string | null, reason: string | null, code: string | null, at: string, runSeq: number } | null, pause: { requestedBy: string | null, reason: string | null, since: string, draining: number } | null, waitsForApprovals: { given: number, required: number } | null, queue: { status: string, createdAt: string, notBefore: string | null, attempts: number } | null };

export type ActionFieldsFragment = { action: Action, outcome: ActionOutcome, code: string | null, reason: string | null, rule: string | null, requiredRole: Role | null, whoCould: Array<string>, reasonRequired: boolean, strength: ActionStrength };

export type SignalFieldsFragment = { signalId: string, runId: string, type: SignalType, typeRaw: string, stepId: string | null, actor: string, reason: string | null, decision: SignalDecision, application: SignalApplication | null, applicationReason: string | null, duplicate: boolean, acceptedSeq: number | null, appliedSeq: number | null, quiescentSeq: number | null, receivedAt: string, deliveredAt: string | null, appliedAt: string | null, rejection: { code: string, message: string } | null };

export type EventFieldsFragment = { eventId: string, eventType: string, runSeq: number, stepId: string | null, logicalAttemptId: number, engineAttemptId: number, persistedAt: string, emittedBy: string | null, payload: unknown };

export type ViewerQueryVariables = Exact<{ [key: string]: never; }>;


export type ViewerQuery = { viewer: { principal: string, tenantId: string, roles: Array<Role>, breakGlassUntil: string | null, policyVersion: number, grants: Array<{ role: Role, projectId: string, environmentId: string, breakGlass: boolean, actions: Array<Action> }>, breakGlass: Array<{ role: Role, maxMinutes: number, actions: Array<Action> }>, places: Array<{ projectId: string, environmentId: string }>, signals: Array<{ signalId: string, runId: string, type: SignalType, typeRaw: string, stepId: string | null, actor: string, reason: string | null, decision: SignalDecision, application: SignalApplication | null, applicationReason: string | null, duplicate: boolean, acceptedSeq: number | null, appliedSeq: number | null, quiescentSeq: number | null, receivedAt: string, deliveredAt: string | null, appliedAt: string | null, rejection: { code: string, message: string } | null }>, devPrincipals: Array<{ principal: string, tenantId: string, role: Role }> } };

export type RunsQueryVariables = Exact<{
  first: number;
  after?: string | null | undefined;
  filter?: RunFilter | null | undefined;
  orderBy: RunOrder;
}>;


export type RunsQuery = { runs: { edges: Array<{ node: { runId: string, projectId: string, environmentId: string, status: RunStatus, statusRaw: string, substatus: RunSubstatus | null, message: string | null, runSeq: number, storeEpoch: string, opsRev: number, triggeredBy: string | null, createdAt: string, startedAt: string | null, completedAt: string | null, totalDurationMs: number | null, failedSteps: number, deadline: string | null, retryDeadline: string | null, plan: { planId: string, planVersion: string, sha256: string }, stepCounts: { total: number, pending: number, running: number, success: number, failed: number, skipped: number, stopped: number, kept: number }, rootCause: { stepId: string | null, stepName: string | null, logicalAttemptId: number | null, code: string, category: FailureCategory | null, message: string | null, retryable: boolean, firstSeq: number, blockedSteps: number, heldSteps: number } | null, cancellation: { signalId: string | null, signalType: SignalType | null, actor: string | null, reason: string | null, code: string | null, at: string, runSeq: number } | null, pause: { requestedBy: string | null, reason: string | null, since: string, draining: number } | null, waitsForApprovals: { given: number, required: number } | null, queue: { status: string, createdAt: string, notBefore: string | null, attempts: number } | null } }>, pageInfo: { hasNextPage: boolean, endCursor: string | null } } };

export type RunOpeningQueryVariables = Exact<{
  runId: string;
}>;


export type RunOpeningQuery = { run: { retryWindowMs: number | null, tenantId: string, parentRunId: string | null, runId: string, projectId: string, environmentId: string, status: RunStatus, statusRaw: string, substatus: RunSubstatus | null, message: string | null, runSeq: number, storeEpoch: string, opsRev: number, triggeredBy: string | null, createdAt: string, startedAt: string | null, completedAt: string | null, totalDurationMs: number | null, failedSteps: number, deadline: string | null, retryDeadline: string | null, engine: { provider: string, workflowId: string } | null, plan: { planId: string, planVersion: string, sha256: string }, stepCounts: { total: number, pending: number, running: number, success: number, failed: number, skipped: number, stopped: number, kept: number }, rootCause: { stepId: string | null, stepName: string | null, logicalAttemptId: number | null, code: string, category: FailureCategory | null, message: string | null, retryable: boolean, firstSeq: number, blockedSteps: number, heldSteps: number } | null, cancellation: { signalId: string | null, signalType: SignalType | null, actor: string | null, reason: string | null, code: string | null, at: string, runSeq: number } | null, pause: { requestedBy: string | null, reason: string | null, since: string, draining: number } | null, waitsForApprovals: { given: number, required: number } | null, queue: { status: string, createdAt: string, notBefore: string | null, attempts: number } | null } | null };

export type RunWholeQueryVariables = Exact<{
  runId: string;
}>;


export type RunWholeQuery = { run: { retryWindowMs: number | null, tenantId: string, parentRunId: string | null, runId: string, projectId: string, environmentId: string, status: RunStatus, statusRaw: string, substatus: RunSubstatus | null, message: string | null, runSeq: number, storeEpoch: string, opsRev: number, triggeredBy: string | null, createdAt: string, startedAt: string | null, completedAt: string | null, totalDurationMs: number | null, failedSteps: number, deadline: string | null, retryDeadline: string | null, steps: Array<{ stepId: string, type: string, name: string | null, group: string | null, dependsOn: Array<string>, status: StepStatus, statusRaw: string, substatus: RunSubstatus | null, logicalAttemptId: number, engineAttemptId: number | null, startedAt: string | null, completedAt: string | null, durationMs: number | null, result: unknown, keptFrom: string | null, pendingRetry: boolean, taskQueue: string | null, resourceClass: string | null, changedSeq: number, error: { code: string, message: string | null, retryable: boolean, category: FailureCategory | null, source: string | null } | null, artifacts: Array<{ uri: string, kind: string, sha256: string | null, sizeBytes: number | null }>, skip: { reason: string | null, reasonCode: string } | null, attempts: Array<{ logicalAttemptId: number, engineAttemptId: number, status: StepStatus, statusRaw: string, startedAt: string | null, completedAt: string | null, durationMs: number | null, lastTryMs: number | null, startedSeq: number | null, endedSeq: number | null, error: { code: string, message: string | null, retryable: boolean, category: FailureCategory | null, source: string | null } | null, skip: { reason: string | null, reasonCode: string } | null }>, nodeCounts: { total: number, running: number, success: number, warn: number, failed: number, skipped: number, unfinished: number } | null, wait: { kind: WaitKind, since: string | null, until: string | null, blockingSteps: Array<string>, who: string | null, taskQueue: string | null } | null }>, engine: { provider: string, workflowId: string } | null, plan: { planId: string, planVersion: string, sha256: string }, stepCounts: { total: number, pending: number, running: number, success: number, failed: number, skipped: number, stopped: number, kept: number }, rootCause: { stepId: string | null, stepName: string | null, logicalAttemptId: number | null, code: string, category: FailureCategory | null, message: string | null, retryable: boolean, firstSeq: number, blockedSteps: number, heldSteps: number } | null, cancellation: { signalId: string | null, signalType: SignalType | null, actor: string | null, reason: string | null, code: string | null, at: string, runSeq: number } | null, pause: { requestedBy: string | null, reason: string | null, since: string, draining: number } | null, waitsForApprovals: { given: number, required: number } | null, queue: { status: string, createdAt: string, notBefore: string | null, attempts: number } | null } | null };

export type ManualTaskFieldsFragment = { stepId: string, stepName: string | null, logicalAttemptId: number, instructions: string | null, evidence: unknown, since: string, deadline: string | null, token: string | null, action: { action: Action, outcome: ActionOutcome, code: string | null, reason: string | null, rule: string | null, requiredRole: Role | null, whoCould: Array<string>, reasonRequired: boolean, strength: ActionStrength } };

export type ActionsQueryVariables = Exact<{
  runId: string;
  cause: string;
  withCause: boolean;
  chosen: string;
  withChosen: boolean;
  waiting: boolean;
  manual: boolean;
  ended: boolean;
  again: RerunInput;
}>;


export type ActionsQuery = { run: { runSeq: number, actions: Array<{ mayReject: boolean, action: Action, outcome: ActionOutcome, code: string | null, reason: string | null, rule: string | null, requiredRole: Role | null, whoCould: Array<string>, reasonRequired: boolean, strength: ActionStrength }>, queue?: { position: number | null, waitsFor: QueueWait | null, estimatedWaitMs: number | null, expiresAt: string | null, slots: { scope: SlotScope, active: number | null, max: number | null } | null } | null, approval?: { required: number, expiresAt: string | null, decisions: Array<{ principal: string, decision: Decision, reason: string | null, at: string }> } | null, cause?: { stepId: string, actions: Array<{ action: Action, outcome: ActionOutcome, code: string | null, reason: string | null, rule: string | null, requiredRole: Role | null, whoCould: Array<string>, reasonRequired: boolean, strength: ActionStrength }> } | null, chosen?: { stepId: string, actions: Array<{ action: Action, outcome: ActionOutcome, code: string | null, reason: string | null, rule: string | null, requiredRole: Role | null, whoCould: Array<string>, reasonRequired: boolean, strength: ActionStrength }> } | null } | null, manualTasks?: { edges: Array<{ node: { stepId: string, stepName: string | null, logicalAttemptId: number, instructions: string | null, evidence: unknown, since: string, deadline: string | null, token: string | null, action: { action: Action, outcome: ActionOutcome, code: string | null, reason: string | null, rule: string | null, requiredRole: Role | null, whoCould: Array<string>, reasonRequired: boolean, strength: ActionStrength } } }> }, why?: { rootCause: { logLine: number | null } | null, lastGreen: { runId: string, createdAt: string, completedAt: string | null } | null } | null, again?: { outcome: ActionOutcome, code: string | null, reason: string | null } };

export type PreviewQueryVariables = Exact<{
  action: ActionInput;
}>;


export type PreviewQuery = { preview: { basedOnSeq: number, outcome: ActionOutcome, code: string | null, reason: string | null, status: RunStatus | null, blocked: Array<string>, warnings: Array<string>, changes: Array<{ stepId: string, kind: StepChangeKind, from: StepStatus, to: StepStatus, why: string }> } };

export type RunDiffQueryVariables = Exact<{
  runId: string;
  a: number;
  b: number;
}>;


export type RunDiffQuery = { runDiff: { from: { runSeq: number, status: RunStatus, statusRaw: string, substatus: RunSubstatus | null, pause: { requestedBy: string | null, reason: string | null, since: string, draining: number } | null }, to: { runSeq: number, status: RunStatus, statusRaw: string, substatus: RunSubstatus | null, pause: { requestedBy: string | null, reason: string | null, since: string, draining: number } | null }, steps: Array<{ stepId: string, from: { status: StepStatus, statusRaw: string, pendingRetry: boolean, logicalAttemptId: number } | null, to: { status: StepStatus, statusRaw: string, pendingRetry: boolean, logicalAttemptId: number } }>, decisions: Array<{ eventId: string, eventType: string, runSeq: number, stepId: string | null, logicalAttemptId: number, engineAttemptId: number, persistedAt: string, emittedBy: string | null, payload: unknown }> } | null };

export type StepLogBeginQueryVariables = Exact<{
  runId: string;
  stepId: string;
  attempt?: number | null | undefined;
}>;


export type StepLogBeginQuery = { stepLog: { totalLines: number, errorLine: number | null, missing: { from: number, to: number } | null } | null };

export type StepNodesQueryVariables = Exact<{
  runId: string;
  stepId: string;
  attempt?: number | null | undefined;
  status?: Array<string> | string | null | undefined;
  first: number;
  after?: string | null | undefined;
}>;


export type StepNodesQuery = { run: { step: { dbtNodes: { total: number, byStatus: Array<{ status: string, count: number }>, pageInfo: { hasNextPage: boolean, endCursor: string | null }, edges: Array<{ node: { uniqueId: string, name: string, resourceType: string, status: string, executionTimeMs: number, message: string | null, failures: number | null, rowsAffected: number | null, compiledSql: string | null, compiledSqlCut: boolean } }> } | null } | null } | null };

export type LiveNodesQueryVariables = Exact<{
  runId: string;
  stepId: string;
  attempt?: number | null | undefined;
  changedAfter: number;
  after?: string | null | undefined;
}>;


export type LiveNodesQuery = { run: { step: { nodes: { seq: number, pageInfo: { hasNextPage: boolean, endCursor: string | null }, edges: Array<{ node: { uniqueId: string, name: string, resourceType: string, status: NodeStatus, durationMs: number | null, rowsAffected: number | null, error: string | null, skippedBy: string | null, attempt: number } }> } | null } | null } | null };

export type CauseNodesQueryVariables = Exact<{
  runId: string;
  stepId: string;
  attempt?: number | null | undefined;
  failing: Array<string> | string;
}>;


export type CauseNodesQuery = { run: { step: { dbtNodes: { byStatus: Array<{ status: string, count: number }>, edges: Array<{ node: { uniqueId: string, name: string, resourceType: string, compiledSql: string | null } }> } | null } | null } | null };

export type RunForecastQueryVariables = Exact<{
  runId: string;
}>;


export type RunForecastQuery = { run: { deadline: string | null, forecast: { low: string, high: string, expectedEnd: string, runs: number, basis: ForecastBasis } | null, forecastGap: { reason: ForecastGapReason, stepId: string | null, runs: number, needed: number } | null } | null };

export type StepMediansQueryVariables = Exact<{
  runId: string;
}>;


export type StepMediansQuery = { run: { steps: Array<{ stepId: string, medianMs: number | null }> } | null };

export type RunAtQueryVariables = Exact<{
  runId: string;
  at: number;
  next: number;
}>;


export type RunAtQuery = { run: { retryWindowMs: number | null, tenantId: string, parentRunId: string | null, runId: string, projectId: string, environmentId: string, status: RunStatus, statusRaw: string, substatus: RunSubstatus | null, message: string | null, runSeq: number, storeEpoch: string, opsRev: number, triggeredBy: string | null, createdAt: string, startedAt: string | null, completedAt: string | null, totalDurationMs: number | null, failedSteps: number, deadline: string | null, retryDeadline: string | null, steps: Array<{ stepId: string, type: string, name: string | null, group: string | null, dependsOn: Array<string>, status: StepStatus, statusRaw: string, substatus: RunSubstatus | null, logicalAttemptId: number, engineAttemptId: number | null, startedAt: string | null, completedAt: string | null, durationMs: number | null, result: unknown, keptFrom: string | null, pendingRetry: boolean, taskQueue: string | null, resourceClass: string | null, changedSeq: number, error: { code: string, message: string | null, retryable: boolean, category: FailureCategory | null, source: string | null } | null, artifacts: Array<{ uri: string, kind: string, sha256: string | null, sizeBytes: number | null }>, skip: { reason: string | null, reasonCode: string } | null, attempts: Array<{ logicalAttemptId: number, engineAttemptId: number, status: StepStatus, statusRaw: string, startedAt: string | null, completedAt: string | null, durationMs: number | null, lastTryMs: number | null, startedSeq: number | null, endedSeq: number | null, error: { code: string, message: string | null, retryable: boolean, category: FailureCategory | null, source: string | null } | null, skip: { reason: string | null, reasonCode: string } | null }>, nodeCounts: { total: number, running: number, success: number, warn: number, failed: number, skipped: number, unfinished: number } | null, wait: { kind: WaitKind, since: string | null, until: string | null, blockingSteps: Array<string>, who: string | null, taskQueue: string | null } | null }>, engine: { provider: string, workflowId: string } | null, plan: { planId: string, planVersion: string, sha256: string }, stepCounts: { total: number, pending: number, running: number, success: number, failed: number, skipped: number, stopped: number, kept: number }, rootCause: { stepId: string | null, stepName: string | null, logicalAttemptId: number | null, code: string, category: FailureCategory | null, message: string | null, retryable: boolean, firstSeq: number, blockedSteps: number, heldSteps: number } | null, cancellation: { signalId: string | null, signalType: SignalType | null, actor: string | null, reason: string | null, code: string | null, at: string, runSeq: number } | null, pause: { requestedBy: string | null, reason: string | null, since: string, draining: number } | null, waitsForApprovals: { given: number, required: number } | null, queue: { status: string, createdAt: string, notBefore: string | null, attempts: number } | null } | null, log: { events: { edges: Array<{ node: { runSeq: number, eventType: string, persistedAt: string } }> } } | null };

export type MomentsAfterQueryVariables = Exact<{
  runId: string;
  after: number;
  first: number;
}>;


export type MomentsAfterQuery = { run: { events: { edges: Array<{ node: { runSeq: number, persistedAt: string } }> } } | null };

export type MomentBeforeQueryVariables = Exact<{
  runId: string;
  before: number;
}>;


export type MomentBeforeQuery = { run: { events: { edges: Array<{ node: { runSeq: number, persistedAt: string } }> } } | null };

export type RunSignalsQueryVariables = Exact<{
  runId: string;
}>;


export type RunSignalsQuery = { run: { signals: { edges: Array<{ node: { signalId: string, runId: string, type: SignalType, typeRaw: string, stepId: string | null, actor: string, reason: string | null, decision: SignalDecision, application: SignalApplication | null, applicationReason: string | null, duplicate: boolean, acceptedSeq: number | null, appliedSeq: number | null, quiescentSeq: number | null, receivedAt: string, deliveredAt: string | null, appliedAt: string | null, rejection: { code: string, message: string } | null } }> } } | null };

export type StepLogQueryVariables = Exact<{
  runId: string;
  stepId: string;
  attempt?: number | null | undefined;
  fromLine: number;
  first: number;
  find?: string | null | undefined;
}>;


export type StepLogQuery = { stepLog: { attempt: number, totalLines: number, matches: Array<number>, totalMatches: number, lines: Array<{ no: number, at: string, stream: string, engineAttemptId: number, text: string }>, missing: { from: number, to: number } | null } | null };

export type StartRunMutationVariables = Exact<{
  input: StartRunInput;
}>;


export type StartRunMutation = { startRun: { deduplicated: boolean, run: { runId: string } } };

export type SignalRunMutationVariables = Exact<{
  input: SignalRunInput;
}>;


export type SignalRunMutation = { signalRun: { signal: { signalId: string, runId: string, type: SignalType, typeRaw: string, stepId: string | null, actor: string, reason: string | null, decision: SignalDecision, application: SignalApplication | null, applicationReason: string | null, duplicate: boolean, acceptedSeq: number | null, appliedSeq: number | null, quiescentSeq: number | null, receivedAt: string, deliveredAt: string | null, appliedAt: string | null, rejection: { code: string, message: string } | null } } };

export type RerunRunMutationVariables = Exact<{
  input: RerunInput;
}>;


export type RerunRunMutation = { rerun: { run: { runId: string } } };

export type CancelRunMutationVariables = Exact<{
  input: CancelRunInput;
}>;


export type CancelRunMutation = { cancelRun: { signal: { signalId: string, runId: string, type: SignalType, typeRaw: string, stepId: string | null, actor: string, reason: string | null, decision: SignalDecision, application: SignalApplication | null, applicationReason: string | null, duplicate: boolean, acceptedSeq: number | null, appliedSeq: number | null, quiescentSeq: number | null, receivedAt: string, deliveredAt: string | null, appliedAt: string | null, rejection: { code: string, message: string } | null } } };

export type RunUpdatesSubscriptionVariables = Exact<{
  runId: string;
  after?: number | null | undefined;
  storeEpoch?: string | null | undefined;
}>;


export type RunUpdatesSubscription = { runUpdates: { sync: SyncState, reason: SyncReason | null, runSeq: number, headSeq: number | null, storeEpoch: string, opsRev: number, asOf: string, lagMs: number, reset: boolean, snapshot: { retryWindowMs: number | null, tenantId: string, parentRunId: string | null, runId: string, projectId: string, environmentId: string, status: RunStatus, statusRaw: string, substatus: RunSubstatus | null, message: string | null, runSeq: number, storeEpoch: string, opsRev: number, triggeredBy: string | null, createdAt: string, startedAt: string | null, completedAt: string | null, totalDurationMs: number | null, failedSteps: number, deadline: string | null, retryDeadline: string | null, steps: Array<{ stepId: string, type: string, name: string | null, group: string | null, dependsOn: Array<string>, status: StepStatus, statusRaw: string, substatus: RunSubstatus | null, logicalAttemptId: number, engineAttemptId: number | null, startedAt: string | null, completedAt: string | null, durationMs: number | null, result: unknown, keptFrom: string | null, pendingRetry: boolean, taskQueue: string | null, resourceClass: string | null, changedSeq: number, error: { code: string, message: string | null, retryable: boolean, category: FailureCategory | null, source: string | null } | null, artifacts: Array<{ uri: string, kind: string, sha256: string | null, sizeBytes: number | null }>, skip: { reason: string | null, reasonCode: string } | null, attempts: Array<{ logicalAttemptId: number, engineAttemptId: number, status: StepStatus, statusRaw: string, startedAt: string | null, completedAt: string | null, durationMs: number | null, lastTryMs: number | null, startedSeq: number | null, endedSeq: number | null, error: { code: string, message: string | null, retryable: boolean, category: FailureCategory | null, source: string | null } | null, skip: { reason: string | null, reasonCode: string } | null }>, nodeCounts: { total: number, running: number, success: number, warn: number, failed: number, skipped: number, unfinished: number } | null, wait: { kind: WaitKind, since: string | null, until: string | null, blockingSteps: Array<string>, who: string | null, taskQueue: string | null } | null }>, engine: { provider: string, workflowId: string } | null, plan: { planId: string, planVersion: string, sha256: string }, stepCounts: { total: number, pending: number, running: number, success: number, failed: number, skipped: number, stopped: number, kept: number }, rootCause: { stepId: string | null, stepName: string | null, logicalAttemptId: number | null, code: string, category: FailureCategory | null, message: string | null, retryable: boolean, firstSeq: number, blockedSteps: number, heldSteps: number } | null, cancellation: { signalId: string | null, signalType: SignalType | null, actor: string | null, reason: string | null, code: string | null, at: string, runSeq: number } | null, pause: { requestedBy: string | null, reason: string | null, since: string, draining: number } | null, waitsForApprovals: { given: number, required: number } | null, queue: { status: string, createdAt: string, notBefore: string | null, attempts: number } | null } | null, delta: { fromSeq: number, toSeq: number, header: { retryWindowMs: number | null, tenantId: string, parentRunId: string | null, runId: string, projectId: string, environmentId: string, status: RunStatus, statusRaw: string, substatus: RunSubstatus | null, message: string | null, runSeq: number, storeEpoch: string, opsRev: number, triggeredBy: string | null, createdAt: string, startedAt: string | null, completedAt: string | null, totalDurationMs: number | null, failedSteps: number, deadline: string | null, retryDeadline: string | null, engine: { provider: string, workflowId: string } | null, plan: { planId: string, planVersion: string, sha256: string }, stepCounts: { total: number, pending: number, running: number, success: number, failed: number, skipped: number, stopped: number, kept: number }, rootCause: { stepId: string | null, stepName: string | null, logicalAttemptId: number | null, code: string, category: FailureCategory | null, message: string | null, retryable: boolean, firstSeq: number, blockedSteps: number, heldSteps: number } | null, cancellation: { signalId: string | null, signalType: SignalType | null, actor: string | null, reason: string | null, code: string | null, at: string, runSeq: number } | null, pause: { requestedBy: string | null, reason: string | null, since: string, draining: number } | null, waitsForApprovals: { given: number, required: number } | null, queue: { status: string, createdAt: string, notBefore: string | null, attempts: number } | null }, steps: Array<{ stepId: string, type: string, name: string | null, group: string | null, dependsOn: Array<string>, status: StepStatus, statusRaw: string, substatus: RunSubstatus | null, logicalAttemptId: number, engineAttemptId: number | null, startedAt: string | null, completedAt: string | null, durationMs: number | null, result: unknown, keptFrom: string | null, pendingRetry: boolean, taskQueue: string | null, resourceClass: string | null, changedSeq: number, error: { code: string, message: string | null, retryable: boolean, category: FailureCategory | null, source: string | null } | null, artifacts: Array<{ uri: string, kind: string, sha256: string | null, sizeBytes: number | null }>, skip: { reason: string | null, reasonCode: string } | null, attempts: Array<{ logicalAttemptId: number, engineAttemptId: number, status: StepStatus, statusRaw: string, startedAt: string | null, completedAt: string | null, durationMs: number | null, lastTryMs: number | null, startedSeq: number | null, endedSeq: number | null, error: { code: string, message: string | null, retryable: boolean, category: FailureCategory | null, source: string | null } | null, skip: { reason: string | null, reasonCode: string } | null }>, nodeCounts: { total: number, running: number, success: number, warn: number, failed: number, skipped: number, unfinished: number } | null, wait: { kind: WaitKind, since: string | null, until: string | null, blockingSteps: Array<string>, who: string | null, taskQueue: string | null } | null }> } | null } };

export type RunEventsSubscriptionVariables = Exact<{
  runId: string;
  after?: number | null | undefined;
  storeEpoch?: string | null | undefined;
}>;


export type RunEventsSubscription = { runEvents: { sync: SyncState, reason: SyncReason | null, headSeq: number | null, storeEpoch: string, asOf: string, reset: boolean, events: Array<{ eventId: string, eventType: string, runSeq: number, stepId: string | null, logicalAttemptId: number, engineAttemptId: number, persistedAt: string, emittedBy: string | null, payload: unknown }> } };

export type RunListSubscriptionVariables = Exact<{
  filter?: RunFilter | null | undefined;
  first: number;
}>;


export type RunListSubscription = { runListUpdates: { sync: SyncState, reason: SyncReason | null, asOf: string, reset: boolean, removed: Array<string>, runs: Array<{ runId: string, projectId: string, environmentId: string, status: RunStatus, statusRaw: string, substatus: RunSubstatus | null, message: string | null, runSeq: number, storeEpoch: string, opsRev: number, triggeredBy: string | null, createdAt: string, startedAt: string | null, completedAt: string | null, totalDurationMs: number | null, failedSteps: number, deadline: string | null, retryDeadline: string | null, plan: { planId: string, planVersion: string, sha256: string }, stepCounts: { total: number, pending: number, running: number, success: number, failed: number, skipped: number, stopped: number, kept: number }, rootCause: { stepId: string | null, stepName: string | null, logicalAttemptId: number | null, code: string, category: FailureCategory | null, message: string | null, retryable: boolean, firstSeq: number, blockedSteps: number, heldSteps: number } | null, cancellation: { signalId: string | null, signalType: SignalType | null, actor: string | null, reason: string | null, code: string | null, at: string, runSeq: number } | null, pause: { requestedBy: string | null, reason: string | null, since: string, draining: number } | null, waitsForApprovals: { given: number, required: number } | null, queue: { status: string, createdAt: string, notBefore: string | null, attempts: number } | null }> } };

export type SignalUpdatesSubscriptionVariables = Exact<{
  runId: string;
}>;


export type SignalUpdatesSubscription = { signalUpdates: { signalId: string, runId: string, type: SignalType, typeRaw: string, stepId: string | null, actor: string, reason: string | null, decision: SignalDecision, application: SignalApplication | null, applicationReason: string | null, duplicate: boolean, acceptedSeq: number | null, appliedSeq: number | null, quiescentSeq: number | null, receivedAt: string, deliveredAt: string | null, appliedAt: string | null, rejection: { code: string, message: string } | null } };

export type StepLogUpdatesSubscriptionVariables = Exact<{
  runId: string;
  stepId: string;
  attempt?: number | null | undefined;
  fromLine: number;
}>;


export type StepLogUpdatesSubscription = { stepLogUpdates: { attempt: number, totalLines: number, complete: boolean, asOf: string, lines: Array<{ no: number, at: string, stream: string, engineAttemptId: number, text: string }>, missing: { from: number, to: number } | null } };

export type ShareLinksQueryVariables = Exact<{ [key: string]: never; }>;


export type ShareLinksQuery = { service: { shareLinkHours: number } };

export type ShareRunMutationVariables = Exact<{
  input: ShareRunInput;
}>;


export type ShareRunMutation = { shareRun: { path: string, expiresAt: string } };

export type ServiceUpdatesSubscriptionVariables = Exact<{ [key: string]: never; }>;


export type ServiceUpdatesSubscription = { serviceUpdates: { mode: EngineMode, modeReason: string | null, modeSince: string | null, frozen: boolean, frozenReason: string | null, frozenSince: string | null, degraded: boolean } };

export type RunPlanQueryVariables = Exact<{
  runId: string;
}>;


export type RunPlanQuery = { run: { planDocument: unknown } | null };

export type PollerSeenQueryVariables = Exact<{
  runId: string;
  stepId: string;
}>;


export type PollerSeenQuery = { run: { step: { wait: { kind: WaitKind, until: string | null, taskQueue: string | null, pollerSeenAt: string | null } | null } | null } | null };

export type RunWaitsQueryVariables = Exact<{
  runId: string;
}>;


export type RunWaitsQuery = { run: { runSeq: number, startedAt: string | null, waits: Array<{ kind: WaitKind, since: string | null, until: string | null, message: string, help: string, whoCould: Array<string>, steps: Array<string>, stepCount: number, try: number | null, tries: number | null }> } | null };

export type StepEvidenceQueryVariables = Exact<{
  runId: string;
  stepId: string;
  attempt?: number | null | undefined;
}>;


export type StepEvidenceQuery = { run: { step: { evidence: { tries: Array<{ engineAttemptId: number, outcome: TryOutcome, worker: string | null, startedAt: string | null, endedAt: string | null, lastHeartbeatAt: string | null, errorCode: string | null, exitStatus: number | null, signal: string | null, logBytes: number | null, stack: string | null }>, compensation: { compensated: boolean, attempts: number, endedAt: string, errorCode: string | null, errorMessage: string | null } | null } } | null } | null };

export type StepInputsQueryVariables = Exact<{
  runId: string;
  stepId: string;
  attempt?: number | null | undefined;
}>;


export type StepInputsQuery = { run: { step: { secrets: Array<{ provider: string, key: string, version: string | null, as: string, resolved: boolean, answeredBy: string | null, answeredVersion: string | null, readAt: string | null, cached: boolean | null, code: string | null }> | null, inputs: { inputs: unknown, params: unknown, secrets: Array<{ provider: string, key: string, version: string | null }>, changes: Array<{ signalId: string, runId: string, type: SignalType, typeRaw: string, stepId: string | null, actor: string, reason: string | null, decision: SignalDecision, application: SignalApplication | null, applicationReason: string | null, duplicate: boolean, acceptedSeq: number | null, appliedSeq: number | null, quiescentSeq: number | null, receivedAt: string, deliveredAt: string | null, appliedAt: string | null, rejection: { code: string, message: string } | null }> } | null } | null } | null };

export type PlanPartsFragment = { path: string, from: string | null, to: string | null };

export type PlanDiffQueryVariables = Exact<{
  runId: string;
}>;


export type PlanDiffQuery = { run: { planDiff: { total: number, added: number, removed: number, changed: number, previous: { runId: string, planVersion: string, createdAt: string }, parts: Array<{ path: string, from: string | null, to: string | null }>, steps: Array<{ stepId: string, change: PlanChange, parts: Array<{ path: string, from: string | null, to: string | null }> }> } | null } | null };

export type LogSearchQueryVariables = Exact<{
  in: LogSearchInput;
  find: string;
  first: number;
  after?: string | null | undefined;
}>;


export type LogSearchQuery = { logSearch: { edges: Array<{ node: { runId: string, runCreatedAt: string, stepId: string, stepName: string | null, attempt: number, totalMatches: number, partial: boolean, lines: Array<{ no: number, text: string }> } }>, pageInfo: { endCursor: string | null, hasNextPage: boolean } } | null };

export type SignalSequelQueryVariables = Exact<{
  runId: string;
  stepId: string;
  ofStep: boolean;
}>;


export type SignalSequelQuery = { run: { runSeq: number, status: RunStatus, substatus: RunSubstatus | null, plan: { planId: string }, pause: { draining: number } | null, step?: { name: string | null, status: StepStatus, changedSeq: number, startedAt: string | null, completedAt: string | null, attempts: Array<{ status: StepStatus, startedAt: string | null, completedAt: string | null, startedSeq: number | null }> } | null } | null };

export type PageFieldsFragment = { endCursor: string | null, hasNextPage: boolean };

export type LetterFieldsFragment = { id: string, projectId: string, runId: string, fromSeq: number, toSeq: number, attempts: number, cause: string, buriedAt: string, redrivenAt: string | null };

export type DeadLettersQueryVariables = Exact<{
  runId?: string | null | undefined;
  open: boolean;
  first: number;
  after?: string | null | undefined;
}>;


export type DeadLettersQuery = { deadLetters: { edges: Array<{ node: { id: string, projectId: string, runId: string, fromSeq: number, toSeq: number, attempts: number, cause: string, buriedAt: string, redrivenAt: string | null } }>, pageInfo: { endCursor: string | null, hasNextPage: boolean } } };

export type RedriveMutationVariables = Exact<{
  input: RedriveDeadLettersInput;
}>;


export type RedriveMutation = { redriveDeadLetters: { more: boolean, results: Array<{ id: string, outcome: RedriveOutcome, code: string | null, message: string | null, letter: { id: string, projectId: string, runId: string, fromSeq: number, toSeq: number, attempts: number, cause: string, buriedAt: string, redrivenAt: string | null } | null }> } };

export type AuditFieldsFragment = { no: number, id: string, hash: string, row: { at: string, tenantId: string, actor: string, action: string, runId: string, signalId: string, outcome: string, code: string, reason: string, requestId: string, detail: string, format: number, credential: string, address: string, via: string, object: string, digest: string } | null };

export type AuditQueryVariables = Exact<{
  filter?: AuditFilter | null | undefined;
  first: number;
  after?: string | null | undefined;
}>;


export type AuditQuery = { audit: { edges: Array<{ node: { no: number, id: string, hash: string, row: { at: string, tenantId: string, actor: string, action: string, runId: string, signalId: string, outcome: string, code: string, reason: string, requestId: string, detail: string, format: number, credential: string, address: string, via: string, object: string, digest: string } | null } }>, searched: { from: number, to: number } | null, pageInfo: { endCursor: string | null, hasNextPage: boolean } } };

export type SignalSeqQueryVariables = Exact<{
  runId: string;
  signalId: string;
}>;


export type SignalSeqQuery = { signal: { acceptedSeq: number | null, appliedSeq: number | null } | null };

export type LetterEventsQueryVariables = Exact<{
  runId: string;
  after: number;
}>;


export type LetterEventsQuery = { run: { events: { edges: Array<{ node: { eventId: string, eventType: string, runSeq: number, stepId: string | null, logicalAttemptId: number, engineAttemptId: number, persistedAt: string, emittedBy: string | null, payload: unknown } }> } } | null };

export type ChangeFieldsFragment = { action: string, requestId: string, actor: string, at: string, version: number | null, versionBefore: number | null };

export type RightHoldersQueryVariables = Exact<{
  actions: Array<Action> | Action;
}>;


export type RightHoldersQuery = { rightHolders: Array<{ action: Action, needs: string | null, names: Array<string>, more: boolean }> };

export type WhoCouldQueryVariables = Exact<{
  action: string;
  runId?: string | null | undefined;
  projectId?: string | null | undefined;
  environmentId?: string | null | undefined;
}>;


export type WhoCouldQuery = { whoCould: Array<string> };

export type QueueQueryVariables = Exact<{
  first: number;
  after?: string | null | undefined;
}>;


export type QueueQuery = { queue: { depth: number, edges: Array<{ node: { runId: string, planId: string, planVersion: string, projectId: string, environmentId: string, triggeredBy: string, priority: number, createdAt: string, expiresAt: string | null, waitsFor: QueueWait | null, position: number | null, estimatedWaitMs: number | null, slots: { scope: SlotScope, active: number | null, max: number | null } | null } }>, pageInfo: { endCursor: string | null, hasNextPage: boolean } } };

export type SlotHoldersQueryVariables = Exact<{
  first: number;
  projectId?: string | null | undefined;
}>;


export type SlotHoldersQuery = { runs: { edges: Array<{ node: { runId: string, projectId: string, environmentId: string, status: RunStatus, statusRaw: string, substatus: RunSubstatus | null, message: string | null, runSeq: number, storeEpoch: string, opsRev: number, triggeredBy: string | null, createdAt: string, startedAt: string | null, completedAt: string | null, totalDurationMs: number | null, failedSteps: number, deadline: string | null, retryDeadline: string | null, plan: { planId: string, planVersion: string, sha256: string }, stepCounts: { total: number, pending: number, running: number, success: number, failed: number, skipped: number, stopped: number, kept: number }, rootCause: { stepId: string | null, stepName: string | null, logicalAttemptId: number | null, code: string, category: FailureCategory | null, message: string | null, retryable: boolean, firstSeq: number, blockedSteps: number, heldSteps: number } | null, cancellation: { signalId: string | null, signalType: SignalType | null, actor: string | null, reason: string | null, code: string | null, at: string, runSeq: number } | null, pause: { requestedBy: string | null, reason: string | null, since: string, draining: number } | null, waitsForApprovals: { given: number, required: number } | null, queue: { status: string, createdAt: string, notBefore: string | null, attempts: number } | null } }>, pageInfo: { hasNextPage: boolean } }, quotas: Array<{ projectId: string | null, active: number, maxActive: number }> };

export type GivenUpQueryVariables = Exact<{
  from: string;
  first: number;
}>;


export type GivenUpQuery = { runs: { edges: Array<{ node: { runId: string, projectId: string, environmentId: string, status: RunStatus, statusRaw: string, substatus: RunSubstatus | null, message: string | null, runSeq: number, storeEpoch: string, opsRev: number, triggeredBy: string | null, createdAt: string, startedAt: string | null, completedAt: string | null, totalDurationMs: number | null, failedSteps: number, deadline: string | null, retryDeadline: string | null, plan: { planId: string, planVersion: string, sha256: string }, stepCounts: { total: number, pending: number, running: number, success: number, failed: number, skipped: number, stopped: number, kept: number }, rootCause: { stepId: string | null, stepName: string | null, logicalAttemptId: number | null, code: string, category: FailureCategory | null, message: string | null, retryable: boolean, firstSeq: number, blockedSteps: number, heldSteps: number } | null, cancellation: { signalId: string | null, signalType: SignalType | null, actor: string | null, reason: string | null, code: string | null, at: string, runSeq: number } | null, pause: { requestedBy: string | null, reason: string | null, since: string, draining: number } | null, waitsForApprovals: { given: number, required: number } | null, queue: { status: string, createdAt: string, notBefore: string | null, attempts: number } | null } }> } };

export type WaitsQueryVariables = Exact<{ [key: string]: never; }>;


export type WaitsQuery = { queue: { edges: Array<{ node: { runId: string, position: number | null, waitsFor: QueueWait | null, slots: { active: number | null, max: number | null } | null } }> }, attention: { edges: Array<{ node: { kind: AttentionKind, runId: string, deadline: string | null, actions: Array<Action>, whoCould: Array<string>, stuck: boolean } }> } };

export type TaskFieldsFragment = { runId: string, stepId: string, stepName: string | null, logicalAttemptId: number, projectId: string, environmentId: string, instructions: string | null, since: string, deadline: string | null, token: string | null, action: { action: Action, outcome: ActionOutcome, code: string | null, reason: string | null, rule: string | null, requiredRole: Role | null, whoCould: Array<string>, reasonRequired: boolean, strength: ActionStrength } };

export type TasksQueryVariables = Exact<{
  first: number;
  after?: string | null | undefined;
}>;


export type TasksQuery = { manualTasks: { edges: Array<{ node: { runId: string, stepId: string, stepName: string | null, logicalAttemptId: number, projectId: string, environmentId: string, instructions: string | null, since: string, deadline: string | null, token: string | null, action: { action: Action, outcome: ActionOutcome, code: string | null, reason: string | null, rule: string | null, requiredRole: Role | null, whoCould: Array<string>, reasonRequired: boolean, strength: ActionStrength } } }>, pageInfo: { endCursor: string | null, hasNextPage: boolean } } };

export type ApprovalFieldsFragment = { required: number, expiresAt: string | null, decisions: Array<{ principal: string, decision: Decision, reason: string | null, at: string }> };

export type RunParamsQueryVariables = Exact<{
  runId: string;
}>;


export type RunParamsQuery = { run: { request: { params: unknown } } | null };

export type RunRequestQueryVariables = Exact<{
  runId: string;
}>;


export type RunRequestQuery = { run: { request: { steps: number | null, params: unknown }, planDiff: { added: number, removed: number, changed: number, previous: { planVersion: string } } | null } | null };

export type DecisionsQueryVariables = Exact<{ [key: string]: never; }>;


export type DecisionsQuery = { viewer: { decisions: Array<{ runId: string, planId: string, planVersion: string, projectId: string, environmentId: string, decision: Decision, at: string, approval: { required: number, expiresAt: string | null, decisions: Array<{ principal: string, decision: Decision, reason: string | null, at: string }> } }> } };

export type ApprovalsQueryVariables = Exact<{
  first: number;
  after?: string | null | undefined;
}>;


export type ApprovalsQuery = { approvals: { edges: Array<{ node: { runId: string, projectId: string, environmentId: string, runSeq: number, triggeredBy: string | null, createdAt: string, plan: { planId: string, planVersion: string }, approval: { required: number, expiresAt: string | null, decisions: Array<{ principal: string, decision: Decision, reason: string | null, at: string }> } | null, actions: Array<{ mayReject: boolean, action: Action, outcome: ActionOutcome, code: string | null, reason: string | null, rule: string | null, requiredRole: Role | null, whoCould: Array<string>, reasonRequired: boolean, strength: ActionStrength }> } }>, pageInfo: { endCursor: string | null, hasNextPage: boolean } } };

export type ApproveMutationVariables = Exact<{
  input: ApproveRunInput;
}>;


export type ApproveMutation = { approveRun: { run: { runId: string, status: RunStatus }, change: { action: string, requestId: string, actor: string, at: string, version: number | null, versionBefore: number | null } | null } };

export type CompleteStepMutationVariables = Exact<{
  input: CompleteManualStepInput;
}>;


export type CompleteStepMutation = { completeManualStep: { signal: { signalId: string, runId: string, type: SignalType, typeRaw: string, stepId: string | null, actor: string, reason: string | null, decision: SignalDecision, application: SignalApplication | null, applicationReason: string | null, duplicate: boolean, acceptedSeq: number | null, appliedSeq: number | null, quiescentSeq: number | null, receivedAt: string, deliveredAt: string | null, appliedAt: string | null, rejection: { code: string, message: string } | null } } };

export type HealthQueryVariables = Exact<{ [key: string]: never; }>;


export type HealthQuery = { health: { status: HealthStatus, checks: Array<{ name: string, status: HealthStatus, configured: boolean, latencyMs: number | null, message: string | null }> } };

export type QuotasQueryVariables = Exact<{ [key: string]: never; }>;


export type QuotasQuery = { quotas: Array<{ projectId: string | null, active: number, maxActive: number, queueDepth: number, maxQueueDepth: number, buckets: Array<{ action: QuotaAction, perMinute: number, tokensRemaining: number, usedPercent: number, nextRefillAt: string | null }> }> };

export type TokenFieldsFragment = { tokenId: string, name: string, prefix: string | null, principal: string, createdBy: string, createdAt: string, expiresAt: string, revokedAt: string | null, lastUsedAt: string | null, grants: Array<{ role: string, projectId: string, environmentId: string }> };

export type TokensQueryVariables = Exact<{
  all: boolean;
  live: boolean;
  first: number;
  after?: string | null | undefined;
}>;


export type TokensQuery = { tokens: { edges: Array<{ node: { tokenId: string, name: string, prefix: string | null, principal: string, createdBy: string, createdAt: string, expiresAt: string, revokedAt: string | null, lastUsedAt: string | null, grants: Array<{ role: string, projectId: string, environmentId: string }> } }>, pageInfo: { endCursor: string | null, hasNextPage: boolean } } };

export type CreateTokenMutationVariables = Exact<{
  input: CreateTokenInput;
}>;


export type CreateTokenMutation = { createToken: { secret: string | null, token: { tokenId: string, name: string, prefix: string | null, principal: string, createdBy: string, createdAt: string, expiresAt: string, revokedAt: string | null, lastUsedAt: string | null, grants: Array<{ role: string, projectId: string, environmentId: string }> }, change: { action: string, requestId: string, actor: string, at: string, version: number | null, versionBefore: number | null } } };

export type RevokeTokenMutationVariables = Exact<{
  input: RevokeTokenInput;
}>;


export type RevokeTokenMutation = { revokeToken: { token: { tokenId: string, name: string, prefix: string | null, principal: string, createdBy: string, createdAt: string, expiresAt: string, revokedAt: string | null, lastUsedAt: string | null, grants: Array<{ role: string, projectId: string, environmentId: string }> }, change: { action: string, requestId: string, actor: string, at: string, version: number | null, versionBefore: number | null } | null } };

export type PolicyFieldsFragment = { version: number, defaultRules: boolean, actor: string | null, reason: string | null, at: string | null, rules: Array<{ role: string, action: string, projectId: string, environmentId: string }>, grants: Array<{ principal: string, role: string, projectId: string, environmentId: string, expiresAt: string | null, breakGlass: boolean }>, sod: { approve: boolean, completeManual: boolean, completeManualInEveryPlan: boolean }, approvals: Array<{ projectId: string, environmentId: string, required: number }>, breakGlass: Array<{ principal: string, role: string, maxMinutes: number }>, sandbox: Array<{ projectId: string, environmentId: string, memory: number | null, cpu: number | null, pids: number | null, disk: number | null, connect: Array<string> | null, require: Array<string> }> };

export type PolicyQueryVariables = Exact<{ [key: string]: never; }>;


export type PolicyQuery = { policy: { version: number, defaultRules: boolean, actor: string | null, reason: string | null, at: string | null, rules: Array<{ role: string, action: string, projectId: string, environmentId: string }>, grants: Array<{ principal: string, role: string, projectId: string, environmentId: string, expiresAt: string | null, breakGlass: boolean }>, sod: { approve: boolean, completeManual: boolean, completeManualInEveryPlan: boolean }, approvals: Array<{ projectId: string, environmentId: string, required: number }>, breakGlass: Array<{ principal: string, role: string, maxMinutes: number }>, sandbox: Array<{ projectId: string, environmentId: string, memory: number | null, cpu: number | null, pids: number | null, disk: number | null, connect: Array<string> | null, require: Array<string> }> } };

export type PolicyHistoryQueryVariables = Exact<{
  first: number;
  after?: string | null | undefined;
}>;


export type PolicyHistoryQuery = { policyHistory: { edges: Array<{ node: { changed: Array<string>, onlyBreakGlass: boolean, version: number, defaultRules: boolean, actor: string | null, reason: string | null, at: string | null, rules: Array<{ role: string, action: string, projectId: string, environmentId: string }>, grants: Array<{ principal: string, role: string, projectId: string, environmentId: string, expiresAt: string | null, breakGlass: boolean }>, sod: { approve: boolean, completeManual: boolean, completeManualInEveryPlan: boolean }, approvals: Array<{ projectId: string, environmentId: string, required: number }>, breakGlass: Array<{ principal: string, role: string, maxMinutes: number }>, sandbox: Array<{ projectId: string, environmentId: string, memory: number | null, cpu: number | null, pids: number | null, disk: number | null, connect: Array<string> | null, require: Array<string> }> } }>, pageInfo: { endCursor: string | null, hasNextPage: boolean } } };

export type QuotaHistoryQueryVariables = Exact<{
  first: number;
  after?: string | null | undefined;
}>;


export type QuotaHistoryQuery = { quotaHistory: { edges: Array<{ node: { changed: Array<string>, version: number, tier: string, strategy: BackpressureStrategy | null, ttlMs: number | null, actor: string | null, reason: string | null, at: string | null, tenant: { startRunPerMinute: number | null, heavyStepsPerMinute: number | null, signalOpsPerMinute: number | null, maxActive: number | null, maxQueueDepth: number | null }, projects: Array<{ projectId: string, weight: number, limits: { startRunPerMinute: number | null, heavyStepsPerMinute: number | null, signalOpsPerMinute: number | null, maxActive: number | null, maxQueueDepth: number | null } }> } }>, pageInfo: { endCursor: string | null, hasNextPage: boolean } } };

export type CapabilitiesQueryVariables = Exact<{ [key: string]: never; }>;


export type CapabilitiesQuery = { capabilities: Array<{ engine: string, name: string, support: string, note: string | null }> };

export type SetPolicyMutationVariables = Exact<{
  input: SetPolicyInput;
}>;


export type SetPolicyMutation = { setPolicy: { policy: { version: number, defaultRules: boolean, actor: string | null, reason: string | null, at: string | null, rules: Array<{ role: string, action: string, projectId: string, environmentId: string }>, grants: Array<{ principal: string, role: string, projectId: string, environmentId: string, expiresAt: string | null, breakGlass: boolean }>, sod: { approve: boolean, completeManual: boolean, completeManualInEveryPlan: boolean }, approvals: Array<{ projectId: string, environmentId: string, required: number }>, breakGlass: Array<{ principal: string, role: string, maxMinutes: number }>, sandbox: Array<{ projectId: string, environmentId: string, memory: number | null, cpu: number | null, pids: number | null, disk: number | null, connect: Array<string> | null, require: Array<string> }> }, effect: { changed: Array<string>, warnings: Array<string> }, change: { action: string, requestId: string, actor: string, at: string, version: number | null, versionBefore: number | null } } };

export type PreviewPolicyQueryVariables = Exact<{
  document: PolicyInput;
}>;


export type PreviewPolicyQuery = { preview: { changed: Array<string>, warnings: Array<string> } };

export type PreviewQuotaQueryVariables = Exact<{
  settings: QuotaSettingsInput;
}>;


export type PreviewQuotaQuery = { preview: { changed: Array<string>, warnings: Array<string> } };

export type RunByStartQueryVariables = Exact<{
  text: string;
}>;


export type RunByStartQuery = { runs: { edges: Array<{ node: { runId: string } }> } };

export type SetShareLinksMutationVariables = Exact<{
  input: SetShareLinksInput;
}>;


export type SetShareLinksMutation = { setShareLinks: { service: { mode: EngineMode, modeReason: string | null, modeSince: string | null, frozen: boolean, frozenReason: string | null, frozenSince: string | null, degraded: boolean, retryAfterMs: number | null, activeRuns: number | null, shareLinkHours: number }, change: { action: string, requestId: string, actor: string, at: string, version: number | null, versionBefore: number | null } } };

export type QuotaSettingsQueryVariables = Exact<{ [key: string]: never; }>;


export type QuotaSettingsQuery = { quotaSettings: { version: number, tier: string, strategy: BackpressureStrategy | null, ttlMs: number | null, actor: string | null, reason: string | null, at: string | null, tierLimits: { startRunPerMinute: number | null, heavyStepsPerMinute: number | null, signalOpsPerMinute: number | null, maxActive: number | null, maxQueueDepth: number | null } | null, tenant: { startRunPerMinute: number | null, heavyStepsPerMinute: number | null, signalOpsPerMinute: number | null, maxActive: number | null, maxQueueDepth: number | null }, projects: Array<{ projectId: string, weight: number, limits: { startRunPerMinute: number | null, heavyStepsPerMinute: number | null, signalOpsPerMinute: number | null, maxActive: number | null, maxQueueDepth: number | null } }> } };

export type LimitFieldsFragment = { startRunPerMinute: number | null, heavyStepsPerMinute: number | null, signalOpsPerMinute: number | null, maxActive: number | null, maxQueueDepth: number | null };

export type QuotaFieldsFragment = { version: number, tier: string, strategy: BackpressureStrategy | null, ttlMs: number | null, actor: string | null, reason: string | null, at: string | null, tenant: { startRunPerMinute: number | null, heavyStepsPerMinute: number | null, signalOpsPerMinute: number | null, maxActive: number | null, maxQueueDepth: number | null }, projects: Array<{ projectId: string, weight: number, limits: { startRunPerMinute: number | null, heavyStepsPerMinute: number | null, signalOpsPerMinute: number | null, maxActive: number | null, maxQueueDepth: number | null } }> };

export type SetQuotaMutationVariables = Exact<{
  input: SetQuotaInput;
}>;


export type SetQuotaMutation = { setQuota: { settings: { version: number, tier: string, strategy: BackpressureStrategy | null, ttlMs: number | null, actor: string | null, reason: string | null, at: string | null, tenant: { startRunPerMinute: number | null, heavyStepsPerMinute: number | null, signalOpsPerMinute: number | null, maxActive: number | null, maxQueueDepth: number | null }, projects: Array<{ projectId: string, weight: number, limits: { startRunPerMinute: number | null, heavyStepsPerMinute: number | null, signalOpsPerMinute: number | null, maxActive: number | null, maxQueueDepth: number | null } }> }, change: { action: string, requestId: string, actor: string, at: string, version: number | null, versionBefore: number | null } } };

export type ServiceFieldsFragment = { mode: EngineMode, modeReason: string | null, modeSince: string | null, frozen: boolean, frozenReason: string | null, frozenSince: string | null, degraded: boolean, retryAfterMs: number | null, activeRuns: number | null, shareLinkHours: number };

export type ServiceQueryVariables = Exact<{ [key: string]: never; }>;


export type ServiceQuery = { service: { mode: EngineMode, modeReason: string | null, modeSince: string | null, frozen: boolean, frozenReason: string | null, frozenSince: string | null, degraded: boolean, retryAfterMs: number | null, activeRuns: number | null, shareLinkHours: number } };

export type SetModeMutationVariables = Exact<{
  input: SetEngineModeInput;
}>;


export type SetModeMutation = { setEngineMode: { service: { mode: EngineMode, modeReason: string | null, modeSince: string | null, frozen: boolean, frozenReason: string | null, frozenSince: string | null, degraded: boolean, retryAfterMs: number | null, activeRuns: number | null, shareLinkHours: number }, change: { action: string, requestId: string, actor: string, at: string, version: number | null, versionBefore: number | null } } };

export type FreezeMutationVariables = Exact<{
  input: FreezeTenantInput;
}>;


export type FreezeMutation = { freezeTenant: { service: { mode: EngineMode, modeReason: string | null, modeSince: string | null, frozen: boolean, frozenReason: string | null, frozenSince: string | null, degraded: boolean, retryAfterMs: number | null, activeRuns: number | null, shareLinkHours: number }, change: { action: string, requestId: string, actor: string, at: string, version: number | null, versionBefore: number | null } } };

export type InboxUpdatesSubscriptionVariables = Exact<{ [key: string]: never; }>;


export type InboxUpdatesSubscription = { inboxUpdates: { reset: boolean, count: number | null, changed: Array<{ runId: string, stepId: string | null }>, removed: Array<{ runId: string, stepId: string | null }> } };

export type BulkFieldsFragment = { id: string, state: BulkState, action: Action, type: SignalType, typeRaw: string, stepId: string | null, payload: unknown, reason: string, createdAt: string, finishedAt: string | null, stoppedAt: string | null, pacedCode: string | null, pacedUntil: string | null, leftOut: number, counts: { total: number, waiting: number, accepted: number, rejected: number, refused: number, notSent: number } };

export type CancelBulkMutationVariables = Exact<{
  input: CancelBulkInput;
}>;


export type CancelBulkMutation = { cancelBulk: { bulk: { id: string, state: BulkState } } };

export type BulkProgressFragment = { id: string, state: BulkState, action: Action, type: SignalType, typeRaw: string, stepId: string | null, payload: unknown, reason: string, createdAt: string, finishedAt: string | null, stoppedAt: string | null, pacedCode: string | null, pacedUntil: string | null, leftOut: number, applications: { pending: number, delivered: number, applied: number, noop: number, notApplied: number }, runs: { waiting: number, running: number, paused: number, completed: number, failed: number, cancelled: number }, counts: { total: number, waiting: number, accepted: number, rejected: number, refused: number, notSent: number } };

export type BulkRowFieldsFragment = { no: number, runId: string, projectId: string, environmentId: string, outcome: BulkOutcome, outcomeRaw: string, code: string | null, message: string | null, at: string | null, failed: boolean, newRunId: string | null, runStatus: RunStatus | null, planId: string | null, causeStep: string | null, causeCode: string | null, causeMessage: string | null, signal: { signalId: string, runId: string, type: SignalType, typeRaw: string, stepId: string | null, actor: string, reason: string | null, decision: SignalDecision, application: SignalApplication | null, applicationReason: string | null, duplicate: boolean, acceptedSeq: number | null, appliedSeq: number | null, quiescentSeq: number | null, receivedAt: string, deliveredAt: string | null, appliedAt: string | null, rejection: { code: string, message: string } | null } | null };

export type BulksQueryVariables = Exact<{
  first: number;
  after?: string | null | undefined;
}>;


export type BulksQuery = { bulks: { edges: Array<{ node: { id: string, state: BulkState, action: Action, type: SignalType, typeRaw: string, stepId: string | null, payload: unknown, reason: string, createdAt: string, finishedAt: string | null, stoppedAt: string | null, pacedCode: string | null, pacedUntil: string | null, leftOut: number, counts: { total: number, waiting: number, accepted: number, rejected: number, refused: number, notSent: number } } }>, pageInfo: { endCursor: string | null, hasNextPage: boolean } } };

export type BulkRowsQueryVariables = Exact<{
  id: string | number;
  outcome?: BulkOutcome | null | undefined;
  failed: boolean;
  first: number;
  after?: string | null | undefined;
}>;


export type BulkRowsQuery = { bulk: { rows: { edges: Array<{ node: { no: number, runId: string, projectId: string, environmentId: string, outcome: BulkOutcome, outcomeRaw: string, code: string | null, message: string | null, at: string | null, failed: boolean, newRunId: string | null, runStatus: RunStatus | null, planId: string | null, causeStep: string | null, causeCode: string | null, causeMessage: string | null, signal: { signalId: string, runId: string, type: SignalType, typeRaw: string, stepId: string | null, actor: string, reason: string | null, decision: SignalDecision, application: SignalApplication | null, applicationReason: string | null, duplicate: boolean, acceptedSeq: number | null, appliedSeq: number | null, quiescentSeq: number | null, receivedAt: string, deliveredAt: string | null, appliedAt: string | null, rejection: { code: string, message: string } | null } | null } }>, pageInfo: { endCursor: string | null, hasNextPage: boolean } } } | null };

export type SignalRunsMutationVariables = Exact<{
  input: SignalRunsInput;
}>;


export type SignalRunsMutation = { signalRuns: { bulk: { id: string } } };

export type BulkUpdatesSubscriptionVariables = Exact<{
  id: string | number;
}>;


export type BulkUpdatesSubscription = { bulkUpdates: { sync: SyncState, reason: SyncReason | null, asOf: string, reset: boolean, bulk: { id: string, state: BulkState, action: Action, type: SignalType, typeRaw: string, stepId: string | null, payload: unknown, reason: string, createdAt: string, finishedAt: string | null, stoppedAt: string | null, pacedCode: string | null, pacedUntil: string | null, leftOut: number, applications: { pending: number, delivered: number, applied: number, noop: number, notApplied: number }, runs: { waiting: number, running: number, paused: number, completed: number, failed: number, cancelled: number }, counts: { total: number, waiting: number, accepted: number, rejected: number, refused: number, notSent: number } }, rows: Array<{ no: number, runId: string, projectId: string, environmentId: string, outcome: BulkOutcome, outcomeRaw: string, code: string | null, message: string | null, at: string | null, failed: boolean, newRunId: string | null, runStatus: RunStatus | null, planId: string | null, causeStep: string | null, causeCode: string | null, causeMessage: string | null, signal: { signalId: string, runId: string, type: SignalType, typeRaw: string, stepId: string | null, actor: string, reason: string | null, decision: SignalDecision, application: SignalApplication | null, applicationReason: string | null, duplicate: boolean, acceptedSeq: number | null, appliedSeq: number | null, quiescentSeq: number | null, receivedAt: string, deliveredAt: string | null, appliedAt: string | null, rejection: { code: string, message: string } | null } | null }> } };

export type BulkPreviewQueryVariables = Exact<{
  action: ActionInput;
}>;


export type BulkPreviewQuery = { preview: { bulk: { count: number, excluded: Array<{ code: string, reason: string, count: number }>, refusals: Array<{ code: string, reason: string, count: number }>, samples: Array<{ runId: string, outcome: ActionOutcome, code: string | null, reason: string | null, changes: Array<{ kind: StepChangeKind }> }> } | null } };

export type RunHistogramQueryVariables = Exact<{
  filter?: RunFilter | null | undefined;
  from: string;
  to: string;
  buckets: number;
}>;


export type RunHistogramQuery = { runHistogram: Array<{ from: string, total: number, failed: number }> };

export type HealthHistoryQueryVariables = Exact<{ [key: string]: never; }>;


export type HealthHistoryQuery = { healthHistory: { server: string, since: string, intervalMs: number, samples: Array<{ at: string, status: HealthStatus, lagP50Ms: number | null, lagP99Ms: number | null, framesPerSecond: number, viewers: number, streams: number, staleStreams: number, stateStoreMs: number | null, temporalMs: number | null }> } };

export type BreakGlassMutationVariables = Exact<{
  input: BreakGlassInput;
}>;


export type BreakGlassMutation = { breakGlass: { role: Role, until: string, policyVersion: number, change: { action: string, requestId: string, actor: string, at: string, version: number | null, versionBefore: number | null } } };

export type EndBreakGlassMutationVariables = Exact<{
  input: EndBreakGlassInput;
}>;


export type EndBreakGlassMutation = { endBreakGlass: { policyVersion: number, change: { action: string, requestId: string, actor: string, at: string, version: number | null, versionBefore: number | null } | null } };

export type KnownPlansQueryVariables = Exact<{
  first: number;
}>;


export type KnownPlansQuery = { runs: { edges: Array<{ node: { runId: string, projectId: string, environmentId: string, plan: { planId: string, planVersion: string } } }> } };

export type StartingPointQueryVariables = Exact<{
  runId: string;
}>;


export type StartingPointQuery = { run: { planDocument: unknown, request: { params: unknown } } | null };

export type BulkRunCountsQueryVariables = Exact<{
  ids: Array<string | number> | string | number;
}>;


export type BulkRunCountsQuery = { bulkRunCounts: Array<{ bulkId: string, runs: { waiting: number, running: number, paused: number, completed: number, failed: number, cancelled: number } }> };

export type RunOriginQueryVariables = Exact<{
  runId: string;
}>;


export type RunOriginQuery = { run: { projectId: string, environmentId: string, plan: { planId: string, planVersion: string } } | null };

export type RunPlanRefQueryVariables = Exact<{
  runId: string;
}>;


export type RunPlanRefQuery = { run: { plan: { schemaVersion: string, schemaEnd: string | null, uri: string | null, compression: string | null, mirrors: Array<string>, answeredBy: string | null, expiresAt: string | null, schemaEvolutionPath: string | null, migrationHint: { sourceVersion: string, targetVersion: string, transformScript: string | null } | null } } | null };

export type PausesQueryVariables = Exact<{
  runId: string;
}>;


export type PausesQuery = { run: { events: { edges: Array<{ node: { eventId: string, eventType: string, runSeq: number, stepId: string | null, logicalAttemptId: number, engineAttemptId: number, persistedAt: string, emittedBy: string | null, payload: unknown } }> } } | null };

export type RunMarksQueryVariables = Exact<{
  runId: string;
  types: Array<string> | string;
  last: number;
}>;


export type RunMarksQuery = { run: { events: { edges: Array<{ node: { runSeq: number, eventType: string, stepId: string | null, payload: unknown } }> } } | null };

export type PlanRunFieldsFragment = { runId: string, planVersion: string, status: RunStatus, statusRaw: string, substatus: RunSubstatus | null, triggeredBy: string | null, createdAt: string, durationMs: number | null, workMs: number | null };

export type PlanSummaryFieldsFragment = { projectId: string, environmentId: string, planId: string, lastRunAt: string, open: number, waiting: number, ended: number, succeeded: number, successRate: number | null, medianMs: number | null, medianWorkMs: number | null, p90WorkMs: number | null, recentMedianWorkMs: number | null, next: PlanNext, nextRunId: string | null, runs: Array<{ runId: string, planVersion: string, status: RunStatus, statusRaw: string, substatus: RunSubstatus | null, triggeredBy: string | null, createdAt: string, durationMs: number | null, workMs: number | null }> };

export type PastAttemptFieldsFragment = { runId: string, planVersion: string, logicalAttemptId: number, engineAttemptId: number, status: StepStatus, statusRaw: string, startedAt: string | null, completedAt: string | null, durationMs: number | null, lastTryMs: number | null, errorCode: string | null, errorMessage: string | null };

export type PlansQueryVariables = Exact<{
  projectId?: string | null | undefined;
  environmentId?: string | null | undefined;
  text?: string | null | undefined;
  first: number;
  after?: string | null | undefined;
}>;


export type PlansQuery = { plans: { edges: Array<{ node: { projectId: string, environmentId: string, planId: string, lastRunAt: string, open: number, waiting: number, ended: number, succeeded: number, successRate: number | null, medianMs: number | null, medianWorkMs: number | null, p90WorkMs: number | null, recentMedianWorkMs: number | null, next: PlanNext, nextRunId: string | null, runs: Array<{ runId: string, planVersion: string, status: RunStatus, statusRaw: string, substatus: RunSubstatus | null, triggeredBy: string | null, createdAt: string, durationMs: number | null, workMs: number | null }> } }>, pageInfo: { endCursor: string | null, hasNextPage: boolean } } };

export type PlanQueryVariables = Exact<{
  projectId: string;
  environmentId: string;
  planId: string;
  runs: number;
}>;


export type PlanQuery = { plan: { countedRuns: number, moreRuns: boolean, summary: { projectId: string, environmentId: string, planId: string, lastRunAt: string, open: number, waiting: number, ended: number, succeeded: number, successRate: number | null, medianMs: number | null, medianWorkMs: number | null, p90WorkMs: number | null, recentMedianWorkMs: number | null, next: PlanNext, nextRunId: string | null, runs: Array<{ runId: string, planVersion: string, status: RunStatus, statusRaw: string, substatus: RunSubstatus | null, triggeredBy: string | null, createdAt: string, durationMs: number | null, workMs: number | null }> }, versions: Array<{ planVersion: string, sha256: string, firstUsedAt: string, lastUsedAt: string, runs: number, lastRunId: string }>, starters: Array<{ principal: string, runs: number, lastRunAt: string, lastRunId: string }>, grid: { leftOut: number, runs: Array<{ runId: string, planVersion: string, status: RunStatus, statusRaw: string, substatus: RunSubstatus | null, triggeredBy: string | null, createdAt: string, durationMs: number | null, workMs: number | null }>, steps: Array<{ stepId: string, name: string | null, cells: Array<{ status: StepStatus, statusRaw: string, durationMs: number | null, attempts: number, kept: boolean } | null> }> } } | null };

export type PlanStepQueryVariables = Exact<{
  projectId: string;
  environmentId: string;
  planId: string;
  stepId: string;
  runs: number;
}>;


export type PlanStepQuery = { planStep: { countedRuns: number, ran: number, succeeded: number, flaky: number, medianMs: number | null, p90Ms: number | null, attempts: Array<{ runId: string, planVersion: string, logicalAttemptId: number, engineAttemptId: number, status: StepStatus, statusRaw: string, startedAt: string | null, completedAt: string | null, durationMs: number | null, lastTryMs: number | null, errorCode: string | null, errorMessage: string | null }>, failures: Array<{ code: string, count: number, message: string | null, last: { runId: string, planVersion: string, logicalAttemptId: number, engineAttemptId: number, status: StepStatus, statusRaw: string, startedAt: string | null, completedAt: string | null, durationMs: number | null, lastTryMs: number | null, errorCode: string | null, errorMessage: string | null } }>, lastGreen: { runId: string, planVersion: string, logicalAttemptId: number, engineAttemptId: number, status: StepStatus, statusRaw: string, startedAt: string | null, completedAt: string | null, durationMs: number | null, lastTryMs: number | null, errorCode: string | null, errorMessage: string | null } | null } | null };

export type PlanPartFieldsFragment = { path: string, from: string | null, to: string | null };

export type ComparePlansQueryVariables = Exact<{
  a: string;
  b: string;
}>;


export type ComparePlansQuery = { compareRuns: { plan: { added: number, removed: number, changed: number, parts: Array<{ path: string, from: string | null, to: string | null }>, steps: Array<{ stepId: string, change: PlanChange, parts: Array<{ path: string, from: string | null, to: string | null }> }> } | null } | null };

export type ComparedRunFieldsFragment = { runId: string, parentRunId: string | null, projectId: string, environmentId: string, status: RunStatus, statusRaw: string, substatus: RunSubstatus | null, createdAt: string, startedAt: string | null, completedAt: string | null, totalDurationMs: number | null, triggeredBy: string | null, plan: { planId: string, planVersion: string } };

export type ComparedStepFieldsFragment = { status: StepStatus, statusRaw: string, durationMs: number | null, attempts: number, errorCode: string | null, keptFrom: string | null, hasRun: boolean };

export type CompareRunsQueryVariables = Exact<{
  a: string;
  b: string;
}>;


export type CompareRunsQuery = { compareRuns: { aWaitedMs: number, bWaitedMs: number, a: { runId: string, parentRunId: string | null, projectId: string, environmentId: string, status: RunStatus, statusRaw: string, substatus: RunSubstatus | null, createdAt: string, startedAt: string | null, completedAt: string | null, totalDurationMs: number | null, triggeredBy: string | null, plan: { planId: string, planVersion: string } }, b: { runId: string, parentRunId: string | null, projectId: string, environmentId: string, status: RunStatus, statusRaw: string, substatus: RunSubstatus | null, createdAt: string, startedAt: string | null, completedAt: string | null, totalDurationMs: number | null, triggeredBy: string | null, plan: { planId: string, planVersion: string } }, params: Array<{ path: string, from: string | null, to: string | null }>, steps: Array<{ stepId: string, name: string | null, changes: Array<ComparedChange>, a: { status: StepStatus, statusRaw: string, durationMs: number | null, attempts: number, errorCode: string | null, keptFrom: string | null, hasRun: boolean } | null, b: { status: StepStatus, statusRaw: string, durationMs: number | null, attempts: number, errorCode: string | null, keptFrom: string | null, hasRun: boolean } | null }> } | null };

export type StepNameQueryVariables = Exact<{
  runId: string;
  stepId: string;
}>;


export type StepNameQuery = { run: { step: { name: string | null } | null } | null };

export type PalettePlansQueryVariables = Exact<{
  text: string;
  first: number;
}>;


export type PalettePlansQuery = { plans: { edges: Array<{ node: { planId: string, projectId: string, environmentId: string, runs: Array<{ runId: string }> } }> } };

export type RerunsQueryVariables = Exact<{
  projectId: string;
  environmentId: string;
  planId: string;
  createdFrom: string;
  first: number;
}>;


export type RerunsQuery = { runs: { edges: Array<{ node: { runId: string, parentRunId: string | null, status: RunStatus, statusRaw: string, substatus: RunSubstatus | null } }> } };

export type RetentionFieldsFragment = { version: number, own: unknown, actor: string | null, reason: string | null, at: string | null, days: { archiveRuns: number, deleteArchives: number, stepLogs: number, receipts: number, deadLetters: number, alerts: number, audit: number, artifacts: Array<{ kind: string, days: number }> } };

export type RetentionQueryVariables = Exact<{ [key: string]: never; }>;


export type RetentionQuery = { retentionPolicy: { version: number, own: unknown, actor: string | null, reason: string | null, at: string | null, lastPass: { startedAt: string, endedAt: string | null, archived: number, archivedBytes: number, deletedEvents: number, deleted: number, removedObjects: number, deletedRows: number, cutRecords: number, held: number, waiting: number, failed: number, error: string | null, overdueSince: string | null } | null, days: { archiveRuns: number, deleteArchives: number, stepLogs: number, receipts: number, deadLetters: number, alerts: number, audit: number, artifacts: Array<{ kind: string, days: number }> } } };

export type RetentionHistoryQueryVariables = Exact<{
  first: number;
  after?: string | null | undefined;
}>;


export type RetentionHistoryQuery = { retentionHistory: { edges: Array<{ node: { changed: Array<string>, version: number, own: unknown, actor: string | null, reason: string | null, at: string | null, days: { archiveRuns: number, deleteArchives: number, stepLogs: number, receipts: number, deadLetters: number, alerts: number, audit: number, artifacts: Array<{ kind: string, days: number }> } } }>, pageInfo: { endCursor: string | null, hasNextPage: boolean } } };

export type PreviewRetentionQueryVariables = Exact<{
  policy: RetentionDaysInput;
}>;


export type PreviewRetentionQuery = { preview: { changed: Array<string>, warnings: Array<string> } };

export type SetRetentionMutationVariables = Exact<{
  input: SetRetentionInput;
}>;


export type SetRetentionMutation = { setRetention: { change: { action: string, requestId: string, actor: string, at: string, version: number | null, versionBefore: number | null } } };

export type LegalHoldsQueryVariables = Exact<{
  open: boolean;
  first: number;
  after?: string | null | undefined;
}>;


export type LegalHoldsQuery = { legalHolds: { edges: Array<{ node: { id: string, kind: HoldKind, subject: string, reason: string, placedBy: string, placedAt: string, liftedBy: string | null, liftedAt: string | null, liftedFor: string | null } }>, pageInfo: { endCursor: string | null, hasNextPage: boolean } } };

export type PlaceHoldMutationVariables = Exact<{
  input: PlaceHoldInput;
}>;


export type PlaceHoldMutation = { placeHold: { change: { action: string, requestId: string, actor: string, at: string, version: number | null, versionBefore: number | null } } };

export type LiftHoldMutationVariables = Exact<{
  input: LiftHoldInput;
}>;


export type LiftHoldMutation = { liftHold: { change: { action: string, requestId: string, actor: string, at: string, version: number | null, versionBefore: number | null } } };

export type RunArchiveQueryVariables = Exact<{
  runId: string;
}>;


export type RunArchiveQuery = { run: { archive: { at: string, events: number } | null } | null };

export type SecretAccessFieldsFragment = { at: string, runId: string, stepId: string, logicalAttemptId: number, engineAttemptId: number, account: string, worker: string, provider: string, key: string, version: string | null, answeredVersion: string | null, as: string, cached: boolean, code: string | null };

export type SecretReadsQueryVariables = Exact<{
  filter?: SecretAccessFilter | null | undefined;
  first?: number | null | undefined;
  after?: string | null | undefined;
}>;


export type SecretReadsQuery = { secretAccess: { edges: Array<{ cursor: string, node: { at: string, runId: string, stepId: string, logicalAttemptId: number, engineAttemptId: number, account: string, worker: string, provider: string, key: string, version: string | null, answeredVersion: string | null, as: string, cached: boolean, code: string | null } }>, pageInfo: { hasNextPage: boolean, endCursor: string | null } } };

export type WorkerFieldsFragment = { account: string, worker: string, queue: string, runtime: string, ok: boolean, problem: string | null, reportedAt: string, live: boolean, overdue: boolean, version: string | null, slots: number, inUse: number, drained: boolean, last: boolean, missing: Array<{ part: string, reason: string }>, steps: Array<{ tenantId: string, runId: string, stepId: string, since: string }>, drain: { actor: string, reason: string, at: string } | null };

export type WorkersQueryVariables = Exact<{ [key: string]: never; }>;


export type WorkersQuery = { workers: Array<{ account: string, worker: string, queue: string, runtime: string, ok: boolean, problem: string | null, reportedAt: string, live: boolean, overdue: boolean, version: string | null, slots: number, inUse: number, drained: boolean, last: boolean, missing: Array<{ part: string, reason: string }>, steps: Array<{ tenantId: string, runId: string, stepId: string, since: string }>, drain: { actor: string, reason: string, at: string } | null }> };

export type DrainWorkerMutationVariables = Exact<{
  input: DrainWorkerInput;
}>;


export type DrainWorkerMutation = { drainWorker: { workers: Array<{ account: string, worker: string, queue: string, runtime: string, ok: boolean, problem: string | null, reportedAt: string, live: boolean, overdue: boolean, version: string | null, slots: number, inUse: number, drained: boolean, last: boolean, missing: Array<{ part: string, reason: string }>, steps: Array<{ tenantId: string, runId: string, stepId: string, since: string }>, drain: { actor: string, reason: string, at: string } | null }>, change: { action: string, requestId: string, actor: string, at: string, version: number | null, versionBefore: number | null } | null } };

export type WorkerDrainsQueryVariables = Exact<{ [key: string]: never; }>;


export type WorkerDrainsQuery = { workers: Array<{ account: string, worker: string, queue: string, ok: boolean, live: boolean, overdue: boolean, drain: { actor: string, reason: string } | null }> };

export class TypedDocumentString<TResult, TVariables>
  extends String
  implements DocumentTypeDecoration<TResult, TVariables>
{
  __apiType?: NonNullable<DocumentTypeDecoration<TResult, TVariables>['__apiType']>;
  private value: string;
  public __meta__?: Record<string, any> | undefined;

  constructor(value: string, __meta__?: Record<string, any> | undefined) {
    super(value);
    this.value = value;
    this.__meta__ = __meta__;
  }

  override toString(): string & DocumentTypeDecoration<TResult, TVariables> {
    return this.value;
  }
}
export const AlertFieldsFragmentDoc = new TypedDocumentString(`
    fragment AlertFields on Alert {
  id
  level
  stage
  code
  note
  meaning
  whatToDo
  installation
  projectId
  environmentId
  planId
  runId
  stepId
  subject
  shared
  actor
  count
  raisedAt
  lastSeenAt
  resolvedAt
  resolution
  acknowledgedAt
  acknowledgedBy
  acknowledgement
  silencedUntil
  whoCould
  page
}
    `, {"fragmentName":"AlertFields"}) as unknown as TypedDocumentString<AlertFieldsFragment, unknown>;
export const ArtifactFieldsFragmentDoc = new TypedDocumentString(`
    fragment ArtifactFields on Artifact {
  uri
  kind
  sha256
  sizeBytes
  contentType
  expiresAt
  downloadUrl
  fileName
  stepId
  attempt
}
    `, {"fragmentName":"ArtifactFields"}) as unknown as TypedDocumentString<ArtifactFieldsFragment, unknown>;
export const AttentionFieldsFragmentDoc = new TypedDocumentString(`
    fragment AttentionFields on AttentionItem {
  kind
  runId
  projectId
  environmentId
  planId
  planVersion
  stepId
  logicalAttemptId
  stepName
  since
  deadline
  expectedBy
  code
  message
  heldSteps
  blockedSteps
  failedSteps
  approvals
  approvalsRequired
  actions
  whoCould
  stuck
}
    `, {"fragmentName":"AttentionFields"}) as unknown as TypedDocumentString<AttentionFieldsFragment, unknown>;
export const FailedRunFieldsFragmentDoc = new TypedDocumentString(`
    fragment FailedRunFields on Run {
  runId
  parentRunId
  projectId
  environmentId
  createdAt
  completedAt
  plan {
    planId
    planVersion
  }
  rootCause {
    stepId
    stepName
    code
    message
  }
}
    `, {"fragmentName":"FailedRunFields"}) as unknown as TypedDocumentString<FailedRunFieldsFragment, unknown>;
export const DestinationFieldsFragmentDoc = new TypedDocumentString(`
    fragment DestinationFields on Destination {
  name
  kind
  address
  state
  why
  since
  disabledBy
  beginsAt
  lastSentAt
  lastError
  sent
  failed
  deadLetters
  droppedDeadLetters
  missedRuns
  waiting
  oldestWaitingAt
  route {
    text
  }
}
    `, {"fragmentName":"DestinationFields"}) as unknown as TypedDocumentString<DestinationFieldsFragment, unknown>;
export const OrderFieldsFragmentDoc = new TypedDocumentString(`
    fragment OrderFields on DeliveryOrder {
  id
  kind
  state
  actor
  reason
  at
  endedAt
  messages
  sent
  failed
  error
  since
  until
}
    `, {"fragmentName":"OrderFields"}) as unknown as TypedDocumentString<OrderFieldsFragment, unknown>;
export const ChangeFieldsFragmentDoc = new TypedDocumentString(`
    fragment ChangeFields on ChangeReceipt {
  action
  requestId
  actor
  at
  version
  versionBefore
}
    `, {"fragmentName":"ChangeFields"}) as unknown as TypedDocumentString<ChangeFieldsFragment, unknown>;
export const OrderPayloadFragmentDoc = new TypedDocumentString(`
    fragment OrderPayload on DeliveryOrderPayload {
  order {
    ...OrderFields
  }
  change {
    ...ChangeFields
  }
}
    fragment OrderFields on DeliveryOrder {
  id
  kind
  state
  actor
  reason
  at
  endedAt
  messages
  sent
  failed
  error
  since
  until
}
fragment ChangeFields on ChangeReceipt {
  action
  requestId
  actor
  at
  version
  versionBefore
}`, {"fragmentName":"OrderPayload"}) as unknown as TypedDocumentString<OrderPayloadFragment, unknown>;
export const ErasureFieldsFragmentDoc = new TypedDocumentString(`
    fragment ErasureFields on Erasure {
  id
  kind
  subject
  reason
  requestedBy
  requestedAt
  expiresAt
  confirmedBy
  confirmedAt
  cancelledBy
  cancelledAt
  startedAt
  phase
  finishedAt
  waitsFor
  holds
  dueAt
  openWork {
    runId
    bulkId
    projectId
    environmentId
    planId
    status
  }
  openWorkCount
  openWorkAt
  erased {
    place
    count
  }
  certificate
}
    `, {"fragmentName":"ErasureFields"}) as unknown as TypedDocumentString<ErasureFieldsFragment, unknown>;
export const IncidentFieldsFragmentDoc = new TypedDocumentString(`
    fragment IncidentFields on Incident {
  id
  severity
  code
  title
  whatToDo
  runbook
  installation
  projectId
  environmentId
  runId
  openedAt
  acknowledgedAt
  acknowledgedBy
  closedAt
  closedBy
  alerts
  openAlerts
}
    `, {"fragmentName":"IncidentFields"}) as unknown as TypedDocumentString<IncidentFieldsFragment, unknown>;
export const IncidentChangeFragmentDoc = new TypedDocumentString(`
    fragment IncidentChange on IncidentPayload {
  change {
    ...ChangeFields
  }
}
    fragment ChangeFields on ChangeReceipt {
  action
  requestId
  actor
  at
  version
  versionBefore
}`, {"fragmentName":"IncidentChange"}) as unknown as TypedDocumentString<IncidentChangeFragment, unknown>;
export const ErrorOfStepFragmentDoc = new TypedDocumentString(`
    fragment ErrorOfStep on StepError {
  code
  message
  retryable
  category
  source
}
    `, {"fragmentName":"ErrorOfStep"}) as unknown as TypedDocumentString<ErrorOfStepFragment, unknown>;
export const StepFieldsFragmentDoc = new TypedDocumentString(`
    fragment StepFields on Step {
  stepId
  type
  name
  group
  dependsOn
  status
  statusRaw
  substatus
  logicalAttemptId
  engineAttemptId
  startedAt
  completedAt
  durationMs
  error {
    ...ErrorOfStep
  }
  artifacts {
    uri
    kind
    sha256
    sizeBytes
  }
  skip {
    reason
    reasonCode
  }
  result
  keptFrom
  pendingRetry
  attempts {
    logicalAttemptId
    engineAttemptId
    status
    statusRaw
    startedAt
    completedAt
    durationMs
    lastTryMs
    startedSeq
    endedSeq
    error {
      ...ErrorOfStep
    }
    skip {
      reason
      reasonCode
    }
  }
  taskQueue
  resourceClass
  changedSeq
  nodeCounts {
    total
    running
    success
    warn
    failed
    skipped
    unfinished
  }
  wait {
    kind
    since
    until
    blockingSteps
    who
    taskQueue
  }
}
    fragment ErrorOfStep on StepError {
  code
  message
  retryable
  category
  source
}`, {"fragmentName":"StepFields"}) as unknown as TypedDocumentString<StepFieldsFragment, unknown>;
export const RunLookFieldsFragmentDoc = new TypedDocumentString(`
    fragment RunLookFields on Run {
  status
  statusRaw
  substatus
  pause {
    requestedBy
    reason
    since
    draining
  }
}
    `, {"fragmentName":"RunLookFields"}) as unknown as TypedDocumentString<RunLookFieldsFragment, unknown>;
export const StepLookFieldsFragmentDoc = new TypedDocumentString(`
    fragment StepLookFields on Step {
  status
  statusRaw
  pendingRetry
  logicalAttemptId
}
    `, {"fragmentName":"StepLookFields"}) as unknown as TypedDocumentString<StepLookFieldsFragment, unknown>;
export const RunRowFragmentDoc = new TypedDocumentString(`
    fragment RunRow on Run {
  runId
  projectId
  environmentId
  status
  statusRaw
  substatus
  message
  runSeq
  storeEpoch
  opsRev
  plan {
    planId
    planVersion
    sha256
  }
  triggeredBy
  createdAt
  startedAt
  completedAt
  totalDurationMs
  stepCounts {
    total
    pending
    running
    success
    failed
    skipped
    stopped
    kept
  }
  failedSteps
  rootCause {
    stepId
    stepName
    logicalAttemptId
    code
    category
    message
    retryable
    firstSeq
    blockedSteps
    heldSteps
  }
  cancellation {
    signalId
    signalType
    actor
    reason
    code
    at
    runSeq
  }
  pause {
    requestedBy
    reason
    since
    draining
  }
  deadline
  retryDeadline
  waitsForApprovals {
    given
    required
  }
  queue {
    status
    createdAt
    notBefore
    attempts
  }
}
    `, {"fragmentName":"RunRow"}) as unknown as TypedDocumentString<RunRowFragment, unknown>;
export const RunHeaderFragmentDoc = new TypedDocumentString(`
    fragment RunHeader on Run {
  retryWindowMs
  ...RunRow
  tenantId
  parentRunId
  engine {
    provider
    workflowId
  }
}
    fragment RunRow on Run {
  runId
  projectId
  environmentId
  status
  statusRaw
  substatus
  message
  runSeq
  storeEpoch
  opsRev
  plan {
    planId
    planVersion
    sha256
  }
  triggeredBy
  createdAt
  startedAt
  completedAt
  totalDurationMs
  stepCounts {
    total
    pending
    running
    success
    failed
    skipped
    stopped
    kept
  }
  failedSteps
  rootCause {
    stepId
    stepName
    logicalAttemptId
    code
    category
    message
    retryable
    firstSeq
    blockedSteps
    heldSteps
  }
  cancellation {
    signalId
    signalType
    actor
    reason
    code
    at
    runSeq
  }
  pause {
    requestedBy
    reason
    since
    draining
  }
  deadline
  retryDeadline
  waitsForApprovals {
    given
    required
  }
  queue {
    status
    createdAt
    notBefore
    attempts
  }
}`, {"fragmentName":"RunHeader"}) as unknown as TypedDocumentString<RunHeaderFragment, unknown>;
export const EventFieldsFragmentDoc = new TypedDocumentString(`
    fragment EventFields on RunEvent {
  eventId
  eventType
  runSeq
  stepId
  logicalAttemptId
  engineAttemptId
  persistedAt
  emittedBy
  payload
}
    `, {"fragmentName":"EventFields"}) as unknown as TypedDocumentString<EventFieldsFragment, unknown>;
export const ActionFieldsFragmentDoc = new TypedDocumentString(`
    fragment ActionFields on ActionAvailability {
  action
  outcome
  code
  reason
  rule
  requiredRole
  whoCould
  reasonRequired
  strength
}
    `, {"fragmentName":"ActionFields"}) as unknown as TypedDocumentString<ActionFieldsFragment, unknown>;
export const ManualTaskFieldsFragmentDoc = new TypedDocumentString(`
    fragment ManualTaskFields on ManualTask {
  stepId
  stepName
  logicalAttemptId
  instructions
  evidence
  since
  deadline
  token
  action {
    ...ActionFields
  }
}
    fragment ActionFields on ActionAvailability {
  action
  outcome
  code
  reason
  rule
  requiredRole
  whoCould
  reasonRequired
  strength
}`, {"fragmentName":"ManualTaskFields"}) as unknown as TypedDocumentString<ManualTaskFieldsFragment, unknown>;
export const PlanPartsFragmentDoc = new TypedDocumentString(`
    fragment PlanParts on PlanPartDiff {
  path
  from
  to
}
    `, {"fragmentName":"PlanParts"}) as unknown as TypedDocumentString<PlanPartsFragment, unknown>;
export const PageFieldsFragmentDoc = new TypedDocumentString(`
    fragment PageFields on PageInfo {
  endCursor
  hasNextPage
}
    `, {"fragmentName":"PageFields"}) as unknown as TypedDocumentString<PageFieldsFragment, unknown>;
export const LetterFieldsFragmentDoc = new TypedDocumentString(`
    fragment LetterFields on DeadLetter {
  id
  projectId
  runId
  fromSeq
  toSeq
  attempts
  cause
  buriedAt
  redrivenAt
}
    `, {"fragmentName":"LetterFields"}) as unknown as TypedDocumentString<LetterFieldsFragment, unknown>;
export const AuditFieldsFragmentDoc = new TypedDocumentString(`
    fragment AuditFields on AuditEntry {
  no
  id
  hash
  row {
    at
    tenantId
    actor
    action
    runId
    signalId
    outcome
    code
    reason
    requestId
    detail
    format
    credential
    address
    via
    object
    digest
  }
}
    `, {"fragmentName":"AuditFields"}) as unknown as TypedDocumentString<AuditFieldsFragment, unknown>;
export const TaskFieldsFragmentDoc = new TypedDocumentString(`
    fragment TaskFields on ManualTask {
  runId
  stepId
  stepName
  logicalAttemptId
  projectId
  environmentId
  instructions
  since
  deadline
  token
  action {
    ...ActionFields
  }
}
    fragment ActionFields on ActionAvailability {
  action
  outcome
  code
  reason
  rule
  requiredRole
  whoCould
  reasonRequired
  strength
}`, {"fragmentName":"TaskFields"}) as unknown as TypedDocumentString<TaskFieldsFragment, unknown>;
export const ApprovalFieldsFragmentDoc = new TypedDocumentString(`
    fragment ApprovalFields on RunApproval {
  required
  expiresAt
  decisions {
    principal
    decision
    reason
    at
  }
}
    `, {"fragmentName":"ApprovalFields"}) as unknown as TypedDocumentString<ApprovalFieldsFragment, unknown>;
export const TokenFieldsFragmentDoc = new TypedDocumentString(`
    fragment TokenFields on Token {
  tokenId
  name
  prefix
  principal
  grants {
    role
    projectId
    environmentId
  }
  createdBy
  createdAt
  expiresAt
  revokedAt
  lastUsedAt
}
    `, {"fragmentName":"TokenFields"}) as unknown as TypedDocumentString<TokenFieldsFragment, unknown>;
export const PolicyFieldsFragmentDoc = new TypedDocumentString(`
    fragment PolicyFields on Policy {
  version
  defaultRules
  rules {
    role
    action
    projectId
    environmentId
  }
  grants {
    principal
    role
    projectId
    environmentId
    expiresAt
    breakGlass
  }
  sod {
    approve
    completeManual
    completeManualInEveryPlan
  }
  approvals {
    projectId
    environmentId
    required
  }
  breakGlass {
    principal
    role
    maxMinutes
  }
  sandbox {
    projectId
    environmentId
    memory
    cpu
    pids
    disk
    connect
    require
  }
  actor
  reason
  at
}
    `, {"fragmentName":"PolicyFields"}) as unknown as TypedDocumentString<PolicyFieldsFragment, unknown>;
export const LimitFieldsFragmentDoc = new TypedDocumentString(`
    fragment LimitFields on QuotaLimits {
  startRunPerMinute
  heavyStepsPerMinute
  signalOpsPerMinute
  maxActive
  maxQueueDepth
}
    `, {"fragmentName":"LimitFields"}) as unknown as TypedDocumentString<LimitFieldsFragment, unknown>;
export const QuotaFieldsFragmentDoc = new TypedDocumentString(`
    fragment QuotaFields on QuotaSettings {
  version
  tier
  tenant {
    ...LimitFields
  }
  projects {
    projectId
    limits {
      ...LimitFields
    }
    weight
  }
  strategy
  ttlMs
  actor
  reason
  at
}
    fragment LimitFields on QuotaLimits {
  startRunPerMinute
  heavyStepsPerMinute
  signalOpsPerMinute
  maxActive
  maxQueueDepth
}`, {"fragmentName":"QuotaFields"}) as unknown as TypedDocumentString<QuotaFieldsFragment, unknown>;
export const ServiceFieldsFragmentDoc = new TypedDocumentString(`
    fragment ServiceFields on ServiceState {
  mode
  modeReason
  modeSince
  frozen
  frozenReason
  frozenSince
  degraded
  retryAfterMs
  activeRuns
  shareLinkHours
}
    `, {"fragmentName":"ServiceFields"}) as unknown as TypedDocumentString<ServiceFieldsFragment, unknown>;
export const BulkFieldsFragmentDoc = new TypedDocumentString(`
    fragment BulkFields on Bulk {
  id
  state
  action
  type
  typeRaw
  stepId
  payload
  reason
  createdAt
  finishedAt
  stoppedAt
  pacedCode
  pacedUntil
  leftOut
  counts {
    total
    waiting
    accepted
    rejected
    refused
    notSent
  }
}
    `, {"fragmentName":"BulkFields"}) as unknown as TypedDocumentString<BulkFieldsFragment, unknown>;
export const BulkProgressFragmentDoc = new TypedDocumentString(`
    fragment BulkProgress on Bulk {
  ...BulkFields
  applications {
    pending
    delivered
    applied
    noop
    notApplied
  }
  runs {
    waiting
    running
    paused
    completed
    failed
    cancelled
  }
}
    fragment BulkFields on Bulk {
  id
  state
  action
  type
  typeRaw
  stepId
  payload
  reason
  createdAt
  finishedAt
  stoppedAt
  pacedCode
  pacedUntil
  leftOut
  counts {
    total
    waiting
    accepted
    rejected
    refused
    notSent
  }
}`, {"fragmentName":"BulkProgress"}) as unknown as TypedDocumentString<BulkProgressFragment, unknown>;
export const SignalFieldsFragmentDoc = new TypedDocumentString(`
    fragment SignalFields on Signal {
  signalId
  runId
  type
  typeRaw
  stepId
  actor
  reason
  decision
  rejection {
    code
    message
  }
  application
  applicationReason
  duplicate
  acceptedSeq
  appliedSeq
  quiescentSeq
  receivedAt
  deliveredAt
  appliedAt
}
    `, {"fragmentName":"SignalFields"}) as unknown as TypedDocumentString<SignalFieldsFragment, unknown>;
export const BulkRowFieldsFragmentDoc = new TypedDocumentString(`
    fragment BulkRowFields on BulkRow {
  no
  runId
  projectId
  environmentId
  outcome
  outcomeRaw
  code
  message
  at
  failed
  newRunId
  runStatus
  planId
  causeStep
  causeCode
  causeMessage
  signal {
    ...SignalFields
  }
}
    fragment SignalFields on Signal {
  signalId
  runId
  type
  typeRaw
  stepId
  actor
  reason
  decision
  rejection {
    code
    message
  }
  application
  applicationReason
  duplicate
  acceptedSeq
  appliedSeq
  quiescentSeq
  receivedAt
  deliveredAt
  appliedAt
}`, {"fragmentName":"BulkRowFields"}) as unknown as TypedDocumentString<BulkRowFieldsFragment, unknown>;
export const PlanRunFieldsFragmentDoc = new TypedDocumentString(`
    fragment PlanRunFields on PlanRun {
  runId
  planVersion
  status
  statusRaw
  substatus
  triggeredBy
  createdAt
  durationMs
  workMs
}
    `, {"fragmentName":"PlanRunFields"}) as unknown as TypedDocumentString<PlanRunFieldsFragment, unknown>;
export const PlanSummaryFieldsFragmentDoc = new TypedDocumentString(`
    fragment PlanSummaryFields on PlanSummary {
  projectId
  environmentId
  planId
  lastRunAt
  open
  waiting
  ended
  succeeded
  successRate
  medianMs
  medianWorkMs
  p90WorkMs
  recentMedianWorkMs
  next
  nextRunId
  runs {
    ...PlanRunFields
  }
}
    fragment PlanRunFields on PlanRun {
  runId
  planVersion
  status
  statusRaw
  substatus
  triggeredBy
  createdAt
  durationMs
  workMs
}`, {"fragmentName":"PlanSummaryFields"}) as unknown as TypedDocumentString<PlanSummaryFieldsFragment, unknown>;
export const PastAttemptFieldsFragmentDoc = new TypedDocumentString(`
    fragment PastAttemptFields on PastAttempt {
  runId
  planVersion
  logicalAttemptId
  engineAttemptId
  status
  statusRaw
  startedAt
  completedAt
  durationMs
  lastTryMs
  errorCode
  errorMessage
}
    `, {"fragmentName":"PastAttemptFields"}) as unknown as TypedDocumentString<PastAttemptFieldsFragment, unknown>;
export const PlanPartFieldsFragmentDoc = new TypedDocumentString(`
    fragment PlanPartFields on PlanPartDiff {
  path
  from
  to
}
    `, {"fragmentName":"PlanPartFields"}) as unknown as TypedDocumentString<PlanPartFieldsFragment, unknown>;
export const ComparedRunFieldsFragmentDoc = new TypedDocumentString(`
    fragment ComparedRunFields on Run {
  runId
  parentRunId
  projectId
  environmentId
  status
  statusRaw
  substatus
  createdAt
  startedAt
  completedAt
  totalDurationMs
  triggeredBy
  plan {
    planId
    planVersion
  }
}
    `, {"fragmentName":"ComparedRunFields"}) as unknown as TypedDocumentString<ComparedRunFieldsFragment, unknown>;
export const ComparedStepFieldsFragmentDoc = new TypedDocumentString(`
    fragment ComparedStepFields on ComparedStep {
  status
  statusRaw
  durationMs
  attempts
  errorCode
  keptFrom
  hasRun
}
    `, {"fragmentName":"ComparedStepFields"}) as unknown as TypedDocumentString<ComparedStepFieldsFragment, unknown>;
export const RetentionFieldsFragmentDoc = new TypedDocumentString(`
    fragment RetentionFields on RetentionPolicy {
  version
  own
  actor
  reason
  at
  days {
    archiveRuns
    deleteArchives
    stepLogs
    receipts
    deadLetters
    alerts
    audit
    artifacts {
      kind
      days
    }
  }
}
    `, {"fragmentName":"RetentionFields"}) as unknown as TypedDocumentString<RetentionFieldsFragment, unknown>;
export const SecretAccessFieldsFragmentDoc = new TypedDocumentString(`
    fragment SecretAccessFields on SecretAccess {
  at
  runId
  stepId
  logicalAttemptId
  engineAttemptId
  account
  worker
  provider
  key
  version
  answeredVersion
  as
  cached
  code
}
    `, {"fragmentName":"SecretAccessFields"}) as unknown as TypedDocumentString<SecretAccessFieldsFragment, unknown>;
export const WorkerFieldsFragmentDoc = new TypedDocumentString(`
    fragment WorkerFields on WorkerReport {
  account
  worker
  queue
  runtime
  missing {
    part
    reason
  }
  ok
  problem
  reportedAt
  live
  overdue
  version
  slots
  inUse
  steps {
    tenantId
    runId
    stepId
    since
  }
  drained
  drain {
    actor
    reason
    at
  }
  last
}
    `, {"fragmentName":"WorkerFields"}) as unknown as TypedDocumentString<WorkerFieldsFragment, unknown>;
export const AlertsDocument = new TypedDocumentString(`
    query Alerts($filter: AlertFilter!, $first: Int!) {
  alerts(filter: $filter, first: $first) {
    pageInfo {
      hasNextPage
    }
    edges {
      node {
        ...AlertFields
      }
    }
  }
}
    fragment AlertFields on Alert {
  id
  level
  stage
  code
  note
  meaning
  whatToDo
  installation
  projectId
  environmentId
  planId
  runId
  stepId
  subject
  shared
  actor
  count
  raisedAt
  lastSeenAt
  resolvedAt
  resolution
  acknowledgedAt
  acknowledgedBy
  acknowledgement
  silencedUntil
  whoCould
  page
}`) as unknown as TypedDocumentString<AlertsQuery, AlertsQueryVariables>;
export const AlertSilencesDocument = new TypedDocumentString(`
    query AlertSilences {
  alertSilences {
    id
    code
    projectId
    runId
    planId
    actor
    reason
    until
  }
}
    `) as unknown as TypedDocumentString<AlertSilencesQuery, AlertSilencesQueryVariables>;
export const AlertUpdatesDocument = new TypedDocumentString(`
    subscription AlertUpdates {
  alertUpdates {
    count
  }
}
    `) as unknown as TypedDocumentString<AlertUpdatesSubscription, AlertUpdatesSubscriptionVariables>;
export const AcknowledgeAlertDocument = new TypedDocumentString(`
    mutation AcknowledgeAlert($input: AcknowledgeAlertInput!) {
  acknowledgeAlert(input: $input) {
    alert {
      id
    }
  }
}
    `) as unknown as TypedDocumentString<AcknowledgeAlertMutation, AcknowledgeAlertMutationVariables>;
export const SilenceAlertsDocument = new TypedDocumentString(`
    mutation SilenceAlerts($input: SilenceAlertsInput!) {
  silenceAlerts(input: $input) {
    silence {
      id
    }
  }
}
    `) as unknown as TypedDocumentString<SilenceAlertsMutation, SilenceAlertsMutationVariables>;
export const EndSilenceDocument = new TypedDocumentString(`
    mutation EndSilence($input: EndSilenceInput!) {
  endSilence(input: $input) {
    change {
      requestId
    }
  }
}
    `) as unknown as TypedDocumentString<EndSilenceMutation, EndSilenceMutationVariables>;
export const RunTraceDocument = new TypedDocumentString(`
    query RunTrace($runId: String!) {
  run(runId: $runId) {
    traceId
  }
}
    `) as unknown as TypedDocumentString<RunTraceQuery, RunTraceQueryVariables>;
export const AlertCountDocument = new TypedDocumentString(`
    query AlertCount {
  viewer {
    alertCount
  }
}
    `) as unknown as TypedDocumentString<AlertCountQuery, AlertCountQueryVariables>;
export const ArtifactsDocument = new TypedDocumentString(`
    query Artifacts($runId: String!, $stepId: String, $kinds: [String!], $first: Int!, $after: String) {
  run(runId: $runId) {
    artifactList(stepId: $stepId, kinds: $kinds, first: $first, after: $after) {
      total
      edges {
        cursor
        node {
          ...ArtifactFields
        }
      }
      pageInfo {
        hasNextPage
        endCursor
      }
    }
  }
}
    fragment ArtifactFields on Artifact {
  uri
  kind
  sha256
  sizeBytes
  contentType
  expiresAt
  downloadUrl
  fileName
  stepId
  attempt
}`) as unknown as TypedDocumentString<ArtifactsQuery, ArtifactsQueryVariables>;
export const ArtifactOfRunDocument = new TypedDocumentString(`
    query ArtifactOfRun($runId: String!, $stepId: String, $first: Int!) {
  run(runId: $runId) {
    plan {
      planId
    }
    artifactList(stepId: $stepId, first: $first) {
      edges {
        node {
          ...ArtifactFields
        }
      }
    }
  }
}
    fragment ArtifactFields on Artifact {
  uri
  kind
  sha256
  sizeBytes
  contentType
  expiresAt
  downloadUrl
  fileName
  stepId
  attempt
}`) as unknown as TypedDocumentString<ArtifactOfRunQuery, ArtifactOfRunQueryVariables>;
export const LinkArtifactDocument = new TypedDocumentString(`
    mutation LinkArtifact($input: LinkArtifactInput!) {
  linkArtifact(input: $input) {
    path
    expiresAt
  }
}
    `) as unknown as TypedDocumentString<LinkArtifactMutation, LinkArtifactMutationVariables>;
export const AttentionCountDocument = new TypedDocumentString(`
    subscription AttentionCount {
  attentionUpdates(first: 1) {
    count
  }
}
    `) as unknown as TypedDocumentString<AttentionCountSubscription, AttentionCountSubscriptionVariables>;
export const AttentionUpdatesDocument = new TypedDocumentString(`
    subscription AttentionUpdates($first: Int!) {
  attentionUpdates(first: $first) {
    sync
    reason
    asOf
    count
    items {
      ...AttentionFields
    }
  }
}
    fragment AttentionFields on AttentionItem {
  kind
  runId
  projectId
  environmentId
  planId
  planVersion
  stepId
  logicalAttemptId
  stepName
  since
  deadline
  expectedBy
  code
  message
  heldSteps
  blockedSteps
  failedSteps
  approvals
  approvalsRequired
  actions
  whoCould
  stuck
}`) as unknown as TypedDocumentString<AttentionUpdatesSubscription, AttentionUpdatesSubscriptionVariables>;
export const LastFailureDocument = new TypedDocumentString(`
    query LastFailure {
  runs(first: 1, filter: {statuses: [FAILED]}, orderBy: CREATED_DESC) {
    edges {
      node {
        runId
        completedAt
        plan {
          planId
        }
      }
    }
  }
}
    `) as unknown as TypedDocumentString<LastFailureQuery, LastFailureQueryVariables>;
export const RunCountsDocument = new TypedDocumentString(`
    query RunCounts($filters: [RunFilter!]!) {
  runCounts(filters: $filters)
}
    `) as unknown as TypedDocumentString<RunCountsQuery, RunCountsQueryVariables>;
export const RunTagsDocument = new TypedDocumentString(`
    query RunTags($runIds: [String!]!) {
  runTags(runIds: $runIds) {
    runId
    tags
    notes
  }
}
    `) as unknown as TypedDocumentString<RunTagsQuery, RunTagsQueryVariables>;
export const RunNotesDocument = new TypedDocumentString(`
    query RunNotes($runId: String!) {
  runTags(runIds: [$runId]) {
    runId
    tags
  }
  runNotes(runId: $runId) {
    no
    author
    at
    body
  }
}
    `) as unknown as TypedDocumentString<RunNotesQuery, RunNotesQueryVariables>;
export const ChangeRunTagsDocument = new TypedDocumentString(`
    mutation ChangeRunTags($input: ChangeRunTagsInput!) {
  changeRunTags(input: $input) {
    tags
    change {
      ...ChangeFields
    }
  }
}
    fragment ChangeFields on ChangeReceipt {
  action
  requestId
  actor
  at
  version
  versionBefore
}`) as unknown as TypedDocumentString<ChangeRunTagsMutation, ChangeRunTagsMutationVariables>;
export const AddRunNoteDocument = new TypedDocumentString(`
    mutation AddRunNote($input: AddRunNoteInput!) {
  addRunNote(input: $input) {
    note {
      no
    }
    change {
      ...ChangeFields
    }
  }
}
    fragment ChangeFields on ChangeReceipt {
  action
  requestId
  actor
  at
  version
  versionBefore
}`) as unknown as TypedDocumentString<AddRunNoteMutation, AddRunNoteMutationVariables>;
export const SavedViewsDocument = new TypedDocumentString(`
    query SavedViews {
  savedViews {
    viewId
    yours
    owner
    projectId
    name
    query
  }
}
    `) as unknown as TypedDocumentString<SavedViewsQuery, SavedViewsQueryVariables>;
export const SaveViewDocument = new TypedDocumentString(`
    mutation SaveView($input: SaveViewInput!) {
  saveView(input: $input) {
    view {
      viewId
    }
    change {
      ...ChangeFields
    }
  }
}
    fragment ChangeFields on ChangeReceipt {
  action
  requestId
  actor
  at
  version
  versionBefore
}`) as unknown as TypedDocumentString<SaveViewMutation, SaveViewMutationVariables>;
export const DeleteViewDocument = new TypedDocumentString(`
    mutation DeleteView($input: DeleteViewInput!) {
  deleteView(input: $input) {
    deleted
    change {
      ...ChangeFields
    }
  }
}
    fragment ChangeFields on ChangeReceipt {
  action
  requestId
  actor
  at
  version
  versionBefore
}`) as unknown as TypedDocumentString<DeleteViewMutation, DeleteViewMutationVariables>;
export const FailedLatelyDocument = new TypedDocumentString(`
    query FailedLately($createdFrom: Time!, $first: Int!) {
  failed: runs(
    first: $first
    filter: {statuses: [FAILED], createdFrom: $createdFrom}
    orderBy: CREATED_DESC
  ) {
    pageInfo {
      hasNextPage
    }
    edges {
      node {
        ...FailedRunFields
      }
    }
  }
  completed: runs(
    first: $first
    filter: {statuses: [COMPLETED], createdFrom: $createdFrom}
    orderBy: CREATED_DESC
  ) {
    edges {
      node {
        runId
        parentRunId
        projectId
        environmentId
        createdAt
        plan {
          planId
        }
      }
    }
  }
  open: runs(
    first: $first
    filter: {statuses: [PENDING, APPROVED, RUNNING, PAUSED], createdFrom: $createdFrom}
    orderBy: CREATED_DESC
  ) {
    edges {
      node {
        runId
        parentRunId
        createdAt
      }
    }
  }
}
    fragment FailedRunFields on Run {
  runId
  parentRunId
  projectId
  environmentId
  createdAt
  completedAt
  plan {
    planId
    planVersion
  }
  rootCause {
    stepId
    stepName
    code
    message
  }
}`) as unknown as TypedDocumentString<FailedLatelyQuery, FailedLatelyQueryVariables>;
export const RunsNowDocument = new TypedDocumentString(`
    query RunsNow {
  runCounts(
    filters: [{statuses: [RUNNING]}, {awaitingOperator: true}, {statuses: [PAUSED]}, {statuses: [PENDING, APPROVED]}]
  )
}
    `) as unknown as TypedDocumentString<RunsNowQuery, RunsNowQueryVariables>;
export const DestinationsDocument = new TypedDocumentString(`
    query Destinations {
  destinations {
    ...DestinationFields
  }
}
    fragment DestinationFields on Destination {
  name
  kind
  address
  state
  why
  since
  disabledBy
  beginsAt
  lastSentAt
  lastError
  sent
  failed
  deadLetters
  droppedDeadLetters
  missedRuns
  waiting
  oldestWaitingAt
  route {
    text
  }
}`) as unknown as TypedDocumentString<DestinationsQuery, DestinationsQueryVariables>;
export const DestinationDocument = new TypedDocumentString(`
    query Destination($name: String!) {
  destination(name: $name) {
    ...DestinationFields
    orders {
      ...OrderFields
    }
  }
}
    fragment OrderFields on DeliveryOrder {
  id
  kind
  state
  actor
  reason
  at
  endedAt
  messages
  sent
  failed
  error
  since
  until
}
fragment DestinationFields on Destination {
  name
  kind
  address
  state
  why
  since
  disabledBy
  beginsAt
  lastSentAt
  lastError
  sent
  failed
  deadLetters
  droppedDeadLetters
  missedRuns
  waiting
  oldestWaitingAt
  route {
    text
  }
}`) as unknown as TypedDocumentString<DestinationQuery, DestinationQueryVariables>;
export const DeadDeliveriesDocument = new TypedDocumentString(`
    query DeadDeliveries($name: String!, $first: Int!, $after: String) {
  deadDeliveries(name: $name, first: $first, after: $after) {
    pageInfo {
      endCursor
      hasNextPage
    }
    edges {
      node {
        id
        messageId
        type
        at
        tenantId
        runId
        tries
        error
        message
      }
    }
  }
}
    `) as unknown as TypedDocumentString<DeadDeliveriesQuery, DeadDeliveriesQueryVariables>;
export const PreviewReplayDocument = new TypedDocumentString(`
    query PreviewReplay($name: String!, $since: Time!, $until: Time, $filter: DeliveryFilter) {
  previewReplay(name: $name, since: $since, until: $until, filter: $filter) {
    messages
    more
    first
    last
  }
}
    `) as unknown as TypedDocumentString<PreviewReplayQuery, PreviewReplayQueryVariables>;
export const TestDestinationDocument = new TypedDocumentString(`
    mutation TestDestination($input: TestDestinationInput!) {
  testDestination(input: $input) {
    ...OrderPayload
  }
}
    fragment OrderFields on DeliveryOrder {
  id
  kind
  state
  actor
  reason
  at
  endedAt
  messages
  sent
  failed
  error
  since
  until
}
fragment OrderPayload on DeliveryOrderPayload {
  order {
    ...OrderFields
  }
  change {
    ...ChangeFields
  }
}
fragment ChangeFields on ChangeReceipt {
  action
  requestId
  actor
  at
  version
  versionBefore
}`) as unknown as TypedDocumentString<TestDestinationMutation, TestDestinationMutationVariables>;
export const ReplayDestinationDocument = new TypedDocumentString(`
    mutation ReplayDestination($input: ReplayDestinationInput!) {
  replayDestination(input: $input) {
    ...OrderPayload
  }
}
    fragment OrderFields on DeliveryOrder {
  id
  kind
  state
  actor
  reason
  at
  endedAt
  messages
  sent
  failed
  error
  since
  until
}
fragment OrderPayload on DeliveryOrderPayload {
  order {
    ...OrderFields
  }
  change {
    ...ChangeFields
  }
}
fragment ChangeFields on ChangeReceipt {
  action
  requestId
  actor
  at
  version
  versionBefore
}`) as unknown as TypedDocumentString<ReplayDestinationMutation, ReplayDestinationMutationVariables>;
export const RedriveDeliveriesDocument = new TypedDocumentString(`
    mutation RedriveDeliveries($input: RedriveDeliveriesInput!) {
  redriveDeliveries(input: $input) {
    ...OrderPayload
  }
}
    fragment OrderFields on DeliveryOrder {
  id
  kind
  state
  actor
  reason
  at
  endedAt
  messages
  sent
  failed
  error
  since
  until
}
fragment OrderPayload on DeliveryOrderPayload {
  order {
    ...OrderFields
  }
  change {
    ...ChangeFields
  }
}
fragment ChangeFields on ChangeReceipt {
  action
  requestId
  actor
  at
  version
  versionBefore
}`) as unknown as TypedDocumentString<RedriveDeliveriesMutation, RedriveDeliveriesMutationVariables>;
export const EnableDestinationDocument = new TypedDocumentString(`
    mutation EnableDestination($input: SwitchDestinationInput!) {
  enableDestination(input: $input) {
    change {
      ...ChangeFields
    }
  }
}
    fragment ChangeFields on ChangeReceipt {
  action
  requestId
  actor
  at
  version
  versionBefore
}`) as unknown as TypedDocumentString<EnableDestinationMutation, EnableDestinationMutationVariables>;
export const DisableDestinationDocument = new TypedDocumentString(`
    mutation DisableDestination($input: SwitchDestinationInput!) {
  disableDestination(input: $input) {
    change {
      ...ChangeFields
    }
  }
}
    fragment ChangeFields on ChangeReceipt {
  action
  requestId
  actor
  at
  version
  versionBefore
}`) as unknown as TypedDocumentString<DisableDestinationMutation, DisableDestinationMutationVariables>;
export const RunCausesDocument = new TypedDocumentString(`
    query RunCauses($runId: String!) {
  run(runId: $runId) {
    diagnosis {
      code
      kind
      confidence
      title
      stepIds
      moreSteps
      since
      until
      evidence {
        source
        text
        runSeq
        stepId
        logicalAttemptId
        line
        page
        metric
      }
      next {
        text
        signalType
        stepId
        safe
        force
      }
    }
  }
}
    `) as unknown as TypedDocumentString<RunCausesQuery, RunCausesQueryVariables>;
export const NeedSomebodyDocument = new TypedDocumentString(`
    query NeedSomebody($first: Int!) {
  attention(first: $first) {
    edges {
      node {
        runId
        planId
      }
    }
  }
}
    `) as unknown as TypedDocumentString<NeedSomebodyQuery, NeedSomebodyQueryVariables>;
export const ErasuresDocument = new TypedDocumentString(`
    query Erasures($first: Int!, $after: String) {
  erasures(first: $first, after: $after) {
    edges {
      node {
        ...ErasureFields
      }
    }
    pageInfo {
      ...PageFields
    }
  }
}
    fragment ErasureFields on Erasure {
  id
  kind
  subject
  reason
  requestedBy
  requestedAt
  expiresAt
  confirmedBy
  confirmedAt
  cancelledBy
  cancelledAt
  startedAt
  phase
  finishedAt
  waitsFor
  holds
  dueAt
  openWork {
    runId
    bulkId
    projectId
    environmentId
    planId
    status
  }
  openWorkCount
  openWorkAt
  erased {
    place
    count
  }
  certificate
}
fragment PageFields on PageInfo {
  endCursor
  hasNextPage
}`) as unknown as TypedDocumentString<ErasuresQuery, ErasuresQueryVariables>;
export const PreviewErasureDocument = new TypedDocumentString(`
    query PreviewErasure($subject: String) {
  preview: previewErasure(subject: $subject) {
    kind
    erased {
      place
      count
      more
    }
    remaining {
      place
      count
      more
    }
    holds
    missing
  }
}
    `) as unknown as TypedDocumentString<PreviewErasureQuery, PreviewErasureQueryVariables>;
export const RequestErasureDocument = new TypedDocumentString(`
    mutation RequestErasure($input: RequestErasureInput!) {
  requestErasure(input: $input) {
    erasure {
      id
    }
    change {
      ...ChangeFields
    }
  }
}
    fragment ChangeFields on ChangeReceipt {
  action
  requestId
  actor
  at
  version
  versionBefore
}`) as unknown as TypedDocumentString<RequestErasureMutation, RequestErasureMutationVariables>;
export const DecideErasureDocument = new TypedDocumentString(`
    mutation DecideErasure($input: DecideErasureInput!) {
  decideErasure(input: $input) {
    change {
      ...ChangeFields
    }
  }
}
    fragment ChangeFields on ChangeReceipt {
  action
  requestId
  actor
  at
  version
  versionBefore
}`) as unknown as TypedDocumentString<DecideErasureMutation, DecideErasureMutationVariables>;
export const IncidentsDocument = new TypedDocumentString(`
    query Incidents($openOnly: Boolean!, $first: Int!, $after: String) {
  incidents(openOnly: $openOnly, first: $first, after: $after) {
    pageInfo {
      endCursor
      hasNextPage
    }
    edges {
      node {
        ...IncidentFields
      }
    }
  }
}
    fragment IncidentFields on Incident {
  id
  severity
  code
  title
  whatToDo
  runbook
  installation
  projectId
  environmentId
  runId
  openedAt
  acknowledgedAt
  acknowledgedBy
  closedAt
  closedBy
  alerts
  openAlerts
}`) as unknown as TypedDocumentString<IncidentsQuery, IncidentsQueryVariables>;
export const RunIncidentsDocument = new TypedDocumentString(`
    query RunIncidents($runId: String!) {
  incidents(openOnly: true, runId: $runId, first: 1) {
    edges {
      node {
        id
        severity
        title
        acknowledgedBy
        closedAt
      }
    }
  }
}
    `) as unknown as TypedDocumentString<RunIncidentsQuery, RunIncidentsQueryVariables>;
export const IncidentDocument = new TypedDocumentString(`
    query Incident($id: ID!) {
  incident(id: $id) {
    ...IncidentFields
    notes {
      at
      actor
      act
      severity
      text
    }
  }
  incidentAlerts(id: $id) {
    ...AlertFields
  }
}
    fragment AlertFields on Alert {
  id
  level
  stage
  code
  note
  meaning
  whatToDo
  installation
  projectId
  environmentId
  planId
  runId
  stepId
  subject
  shared
  actor
  count
  raisedAt
  lastSeenAt
  resolvedAt
  resolution
  acknowledgedAt
  acknowledgedBy
  acknowledgement
  silencedUntil
  whoCould
  page
}
fragment IncidentFields on Incident {
  id
  severity
  code
  title
  whatToDo
  runbook
  installation
  projectId
  environmentId
  runId
  openedAt
  acknowledgedAt
  acknowledgedBy
  closedAt
  closedBy
  alerts
  openAlerts
}`) as unknown as TypedDocumentString<IncidentQuery, IncidentQueryVariables>;
export const AcknowledgeIncidentDocument = new TypedDocumentString(`
    mutation AcknowledgeIncident($input: IncidentNoteInput!) {
  acknowledgeIncident(input: $input) {
    ...IncidentChange
  }
}
    fragment IncidentChange on IncidentPayload {
  change {
    ...ChangeFields
  }
}
fragment ChangeFields on ChangeReceipt {
  action
  requestId
  actor
  at
  version
  versionBefore
}`) as unknown as TypedDocumentString<AcknowledgeIncidentMutation, AcknowledgeIncidentMutationVariables>;
export const NoteIncidentDocument = new TypedDocumentString(`
    mutation NoteIncident($input: IncidentNoteInput!) {
  noteIncident(input: $input) {
    ...IncidentChange
  }
}
    fragment IncidentChange on IncidentPayload {
  change {
    ...ChangeFields
  }
}
fragment ChangeFields on ChangeReceipt {
  action
  requestId
  actor
  at
  version
  versionBefore
}`) as unknown as TypedDocumentString<NoteIncidentMutation, NoteIncidentMutationVariables>;
export const CloseIncidentDocument = new TypedDocumentString(`
    mutation CloseIncident($input: IncidentNoteInput!) {
  closeIncident(input: $input) {
    ...IncidentChange
  }
}
    fragment IncidentChange on IncidentPayload {
  change {
    ...ChangeFields
  }
}
fragment ChangeFields on ChangeReceipt {
  action
  requestId
  actor
  at
  version
  versionBefore
}`) as unknown as TypedDocumentString<CloseIncidentMutation, CloseIncidentMutationVariables>;
export const SetIncidentSeverityDocument = new TypedDocumentString(`
    mutation SetIncidentSeverity($input: IncidentSeverityInput!) {
  setIncidentSeverity(input: $input) {
    ...IncidentChange
  }
}
    fragment IncidentChange on IncidentPayload {
  change {
    ...ChangeFields
  }
}
fragment ChangeFields on ChangeReceipt {
  action
  requestId
  actor
  at
  version
  versionBefore
}`) as unknown as TypedDocumentString<SetIncidentSeverityMutation, SetIncidentSeverityMutationVariables>;
export const ViewerDocument = new TypedDocumentString(`
    query Viewer {
  viewer {
    principal
    tenantId
    roles
    grants {
      role
      projectId
      environmentId
      breakGlass
      actions
    }
    breakGlass {
      role
      maxMinutes
      actions
    }
    breakGlassUntil
    places {
      projectId
      environmentId
    }
    policyVersion
    signals(first: 50, single: true) {
      ...SignalFields
    }
    devPrincipals {
      principal
      tenantId
      role
    }
  }
}
    fragment SignalFields on Signal {
  signalId
  runId
  type
  typeRaw
  stepId
  actor
  reason
  decision
  rejection {
    code
    message
  }
  application
  applicationReason
  duplicate
  acceptedSeq
  appliedSeq
  quiescentSeq
  receivedAt
  deliveredAt
  appliedAt
}`) as unknown as TypedDocumentString<ViewerQuery, ViewerQueryVariables>;
export const RunsDocument = new TypedDocumentString(`
    query Runs($first: Int!, $after: String, $filter: RunFilter, $orderBy: RunOrder!) {
  runs(first: $first, after: $after, filter: $filter, orderBy: $orderBy) {
    edges {
      node {
        ...RunRow
      }
    }
    pageInfo {
      hasNextPage
      endCursor
    }
  }
}
    fragment RunRow on Run {
  runId
  projectId
  environmentId
  status
  statusRaw
  substatus
  message
  runSeq
  storeEpoch
  opsRev
  plan {
    planId
    planVersion
    sha256
  }
  triggeredBy
  createdAt
  startedAt
  completedAt
  totalDurationMs
  stepCounts {
    total
    pending
    running
    success
    failed
    skipped
    stopped
    kept
  }
  failedSteps
  rootCause {
    stepId
    stepName
    logicalAttemptId
    code
    category
    message
    retryable
    firstSeq
    blockedSteps
    heldSteps
  }
  cancellation {
    signalId
    signalType
    actor
    reason
    code
    at
    runSeq
  }
  pause {
    requestedBy
    reason
    since
    draining
  }
  deadline
  retryDeadline
  waitsForApprovals {
    given
    required
  }
  queue {
    status
    createdAt
    notBefore
    attempts
  }
}`) as unknown as TypedDocumentString<RunsQuery, RunsQueryVariables>;
export const RunOpeningDocument = new TypedDocumentString(`
    query RunOpening($runId: String!) {
  run(runId: $runId) {
    ...RunHeader
  }
}
    fragment RunRow on Run {
  runId
  projectId
  environmentId
  status
  statusRaw
  substatus
  message
  runSeq
  storeEpoch
  opsRev
  plan {
    planId
    planVersion
    sha256
  }
  triggeredBy
  createdAt
  startedAt
  completedAt
  totalDurationMs
  stepCounts {
    total
    pending
    running
    success
    failed
    skipped
    stopped
    kept
  }
  failedSteps
  rootCause {
    stepId
    stepName
    logicalAttemptId
    code
    category
    message
    retryable
    firstSeq
    blockedSteps
    heldSteps
  }
  cancellation {
    signalId
    signalType
    actor
    reason
    code
    at
    runSeq
  }
  pause {
    requestedBy
    reason
    since
    draining
  }
  deadline
  retryDeadline
  waitsForApprovals {
    given
    required
  }
  queue {
    status
    createdAt
    notBefore
    attempts
  }
}
fragment RunHeader on Run {
  retryWindowMs
  ...RunRow
  tenantId
  parentRunId
  engine {
    provider
    workflowId
  }
}`) as unknown as TypedDocumentString<RunOpeningQuery, RunOpeningQueryVariables>;
export const RunWholeDocument = new TypedDocumentString(`
    query RunWhole($runId: String!) {
  run(runId: $runId) {
    ...RunHeader
    steps {
      ...StepFields
    }
  }
}
    fragment ErrorOfStep on StepError {
  code
  message
  retryable
  category
  source
}
fragment StepFields on Step {
  stepId
  type
  name
  group
  dependsOn
  status
  statusRaw
  substatus
  logicalAttemptId
  engineAttemptId
  startedAt
  completedAt
  durationMs
  error {
    ...ErrorOfStep
  }
  artifacts {
    uri
    kind
    sha256
    sizeBytes
  }
  skip {
    reason
    reasonCode
  }
  result
  keptFrom
  pendingRetry
  attempts {
    logicalAttemptId
    engineAttemptId
    status
    statusRaw
    startedAt
    completedAt
    durationMs
    lastTryMs
    startedSeq
    endedSeq
    error {
      ...ErrorOfStep
    }
    skip {
      reason
      reasonCode
    }
  }
  taskQueue
  resourceClass
  changedSeq
  nodeCounts {
    total
    running
    success
    warn
    failed
    skipped
    unfinished
  }
  wait {
    kind
    since
    until
    blockingSteps
    who
    taskQueue
  }
}
fragment RunRow on Run {
  runId
  projectId
  environmentId
  status
  statusRaw
  substatus
  message
  runSeq
  storeEpoch
  opsRev
  plan {
    planId
    planVersion
    sha256
  }
  triggeredBy
  createdAt
  startedAt
  completedAt
  totalDurationMs
  stepCounts {
    total
    pending
    running
    success
    failed
    skipped
    stopped
    kept
  }
  failedSteps
  rootCause {
    stepId
    stepName
    logicalAttemptId
    code
    category
    message
    retryable
    firstSeq
    blockedSteps
    heldSteps
  }
  cancellation {
    signalId
    signalType
    actor
    reason
    code
    at
    runSeq
  }
  pause {
    requestedBy
    reason
    since
    draining
  }
  deadline
  retryDeadline
  waitsForApprovals {
    given
    required
  }
  queue {
    status
    createdAt
    notBefore
    attempts
  }
}
fragment RunHeader on Run {
  retryWindowMs
  ...RunRow
  tenantId
  parentRunId
  engine {
    provider
    workflowId
  }
}`) as unknown as TypedDocumentString<RunWholeQuery, RunWholeQueryVariables>;
export const ActionsDocument = new TypedDocumentString(`
    query Actions($runId: String!, $cause: String!, $withCause: Boolean!, $chosen: String!, $withChosen: Boolean!, $waiting: Boolean!, $manual: Boolean!, $ended: Boolean!, $again: RerunInput!) {
  run(runId: $runId) {
    runSeq
    actions {
      ...ActionFields
      mayReject
    }
    queue @include(if: $waiting) {
      position
      waitsFor
      estimatedWaitMs
      slots {
        scope
        active
        max
      }
      expiresAt
    }
    approval @include(if: $waiting) {
      required
      expiresAt
      decisions {
        principal
        decision
        reason
        at
      }
    }
    cause: step(stepId: $cause) @include(if: $withCause) {
      stepId
      actions {
        ...ActionFields
      }
    }
    chosen: step(stepId: $chosen) @include(if: $withChosen) {
      stepId
      actions {
        ...ActionFields
      }
    }
  }
  manualTasks(runId: $runId, first: 50) @include(if: $manual) {
    edges {
      node {
        ...ManualTaskFields
      }
    }
  }
  why: run(runId: $runId) @include(if: $withCause) {
    rootCause {
      logLine
    }
    lastGreen {
      runId
      createdAt
      completedAt
    }
  }
  again: preview(action: {rerun: $again}) @include(if: $ended) {
    outcome
    code
    reason
  }
}
    fragment ActionFields on ActionAvailability {
  action
  outcome
  code
  reason
  rule
  requiredRole
  whoCould
  reasonRequired
  strength
}
fragment ManualTaskFields on ManualTask {
  stepId
  stepName
  logicalAttemptId
  instructions
  evidence
  since
  deadline
  token
  action {
    ...ActionFields
  }
}`) as unknown as TypedDocumentString<ActionsQuery, ActionsQueryVariables>;
export const PreviewDocument = new TypedDocumentString(`
    query Preview($action: ActionInput!) {
  preview(action: $action) {
    basedOnSeq
    outcome
    code
    reason
    status
    changes {
      stepId
      kind
      from
      to
      why
    }
    blocked
    warnings
  }
}
    `) as unknown as TypedDocumentString<PreviewQuery, PreviewQueryVariables>;
export const RunDiffDocument = new TypedDocumentString(`
    query RunDiff($runId: String!, $a: Seq!, $b: Seq!) {
  runDiff(runId: $runId, a: $a, b: $b) {
    from {
      runSeq
      ...RunLookFields
    }
    to {
      runSeq
      ...RunLookFields
    }
    steps {
      stepId
      from {
        ...StepLookFields
      }
      to {
        ...StepLookFields
      }
    }
    decisions {
      ...EventFields
    }
  }
}
    fragment RunLookFields on Run {
  status
  statusRaw
  substatus
  pause {
    requestedBy
    reason
    since
    draining
  }
}
fragment StepLookFields on Step {
  status
  statusRaw
  pendingRetry
  logicalAttemptId
}
fragment EventFields on RunEvent {
  eventId
  eventType
  runSeq
  stepId
  logicalAttemptId
  engineAttemptId
  persistedAt
  emittedBy
  payload
}`) as unknown as TypedDocumentString<RunDiffQuery, RunDiffQueryVariables>;
export const StepLogBeginDocument = new TypedDocumentString(`
    query StepLogBegin($runId: String!, $stepId: String!, $attempt: Int) {
  stepLog(
    runId: $runId
    stepId: $stepId
    attempt: $attempt
    fromLine: 1
    first: 1
  ) {
    totalLines
    missing {
      from
      to
    }
    errorLine
  }
}
    `) as unknown as TypedDocumentString<StepLogBeginQuery, StepLogBeginQueryVariables>;
export const StepNodesDocument = new TypedDocumentString(`
    query StepNodes($runId: String!, $stepId: String!, $attempt: Int, $status: [String!], $first: Int!, $after: String) {
  run(runId: $runId) {
    step(stepId: $stepId) {
      dbtNodes(attempt: $attempt, status: $status, first: $first, after: $after) {
        total
        byStatus {
          status
          count
        }
        pageInfo {
          hasNextPage
          endCursor
        }
        edges {
          node {
            uniqueId
            name
            resourceType
            status
            executionTimeMs
            message
            failures
            rowsAffected
            compiledSql
            compiledSqlCut
          }
        }
      }
    }
  }
}
    `) as unknown as TypedDocumentString<StepNodesQuery, StepNodesQueryVariables>;
export const LiveNodesDocument = new TypedDocumentString(`
    query LiveNodes($runId: String!, $stepId: String!, $attempt: Int, $changedAfter: Seq!, $after: String) {
  run(runId: $runId) {
    step(stepId: $stepId) {
      nodes(attempt: $attempt, changedAfter: $changedAfter, first: 200, after: $after) {
        seq
        pageInfo {
          hasNextPage
          endCursor
        }
        edges {
          node {
            uniqueId
            name
            resourceType
            status
            durationMs
            rowsAffected
            error
            skippedBy
            attempt
          }
        }
      }
    }
  }
}
    `) as unknown as TypedDocumentString<LiveNodesQuery, LiveNodesQueryVariables>;
export const CauseNodesDocument = new TypedDocumentString(`
    query CauseNodes($runId: String!, $stepId: String!, $attempt: Int, $failing: [String!]!) {
  run(runId: $runId) {
    step(stepId: $stepId) {
      dbtNodes(attempt: $attempt, status: $failing, first: 1) {
        byStatus {
          status
          count
        }
        edges {
          node {
            uniqueId
            name
            resourceType
            compiledSql
          }
        }
      }
    }
  }
}
    `) as unknown as TypedDocumentString<CauseNodesQuery, CauseNodesQueryVariables>;
export const RunForecastDocument = new TypedDocumentString(`
    query RunForecast($runId: String!) {
  run(runId: $runId) {
    deadline
    forecast {
      low
      high
      expectedEnd
      runs
      basis
    }
    forecastGap {
      reason
      stepId
      runs
      needed
    }
  }
}
    `) as unknown as TypedDocumentString<RunForecastQuery, RunForecastQueryVariables>;
export const StepMediansDocument = new TypedDocumentString(`
    query StepMedians($runId: String!) {
  run(runId: $runId) {
    steps {
      stepId
      medianMs
    }
  }
}
    `) as unknown as TypedDocumentString<StepMediansQuery, StepMediansQueryVariables>;
export const RunAtDocument = new TypedDocumentString(`
    query RunAt($runId: String!, $at: Seq!, $next: Seq!) {
  run(runId: $runId, at: $at) {
    ...RunHeader
    steps {
      ...StepFields
    }
  }
  log: run(runId: $runId) {
    events(last: 1, before: $next) {
      edges {
        node {
          runSeq
          eventType
          persistedAt
        }
      }
    }
  }
}
    fragment ErrorOfStep on StepError {
  code
  message
  retryable
  category
  source
}
fragment StepFields on Step {
  stepId
  type
  name
  group
  dependsOn
  status
  statusRaw
  substatus
  logicalAttemptId
  engineAttemptId
  startedAt
  completedAt
  durationMs
  error {
    ...ErrorOfStep
  }
  artifacts {
    uri
    kind
    sha256
    sizeBytes
  }
  skip {
    reason
    reasonCode
  }
  result
  keptFrom
  pendingRetry
  attempts {
    logicalAttemptId
    engineAttemptId
    status
    statusRaw
    startedAt
    completedAt
    durationMs
    lastTryMs
    startedSeq
    endedSeq
    error {
      ...ErrorOfStep
    }
    skip {
      reason
      reasonCode
    }
  }
  taskQueue
  resourceClass
  changedSeq
  nodeCounts {
    total
    running
    success
    warn
    failed
    skipped
    unfinished
  }
  wait {
    kind
    since
    until
    blockingSteps
    who
    taskQueue
  }
}
fragment RunRow on Run {
  runId
  projectId
  environmentId
  status
  statusRaw
  substatus
  message
  runSeq
  storeEpoch
  opsRev
  plan {
    planId
    planVersion
    sha256
  }
  triggeredBy
  createdAt
  startedAt
  completedAt
  totalDurationMs
  stepCounts {
    total
    pending
    running
    success
    failed
    skipped
    stopped
    kept
  }
  failedSteps
  rootCause {
    stepId
    stepName
    logicalAttemptId
    code
    category
    message
    retryable
    firstSeq
    blockedSteps
    heldSteps
  }
  cancellation {
    signalId
    signalType
    actor
    reason
    code
    at
    runSeq
  }
  pause {
    requestedBy
    reason
    since
    draining
  }
  deadline
  retryDeadline
  waitsForApprovals {
    given
    required
  }
  queue {
    status
    createdAt
    notBefore
    attempts
  }
}
fragment RunHeader on Run {
  retryWindowMs
  ...RunRow
  tenantId
  parentRunId
  engine {
    provider
    workflowId
  }
}`) as unknown as TypedDocumentString<RunAtQuery, RunAtQueryVariables>;
export const MomentsAfterDocument = new TypedDocumentString(`
    query MomentsAfter($runId: String!, $after: Seq!, $first: Int!) {
  run(runId: $runId) {
    events(first: $first, after: $after) {
      edges {
        node {
          runSeq
          persistedAt
        }
      }
    }
  }
}
    `) as unknown as TypedDocumentString<MomentsAfterQuery, MomentsAfterQueryVariables>;
export const MomentBeforeDocument = new TypedDocumentString(`
    query MomentBefore($runId: String!, $before: Seq!) {
  run(runId: $runId) {
    events(last: 1, before: $before) {
      edges {
        node {
          runSeq
          persistedAt
        }
      }
    }
  }
}
    `) as unknown as TypedDocumentString<MomentBeforeQuery, MomentBeforeQueryVariables>;
export const RunSignalsDocument = new TypedDocumentString(`
    query RunSignals($runId: String!) {
  run(runId: $runId) {
    signals(first: 50) {
      edges {
        node {
          ...SignalFields
        }
      }
    }
  }
}
    fragment SignalFields on Signal {
  signalId
  runId
  type
  typeRaw
  stepId
  actor
  reason
  decision
  rejection {
    code
    message
  }
  application
  applicationReason
  duplicate
  acceptedSeq
  appliedSeq
  quiescentSeq
  receivedAt
  deliveredAt
  appliedAt
}`) as unknown as TypedDocumentString<RunSignalsQuery, RunSignalsQueryVariables>;
export const StepLogDocument = new TypedDocumentString(`
    query StepLog($runId: String!, $stepId: String!, $attempt: Int, $fromLine: Int!, $first: Int!, $find: String) {
  stepLog(
    runId: $runId
    stepId: $stepId
    attempt: $attempt
    fromLine: $fromLine
    first: $first
    find: $find
  ) {
    attempt
    lines {
      no
      at
      stream
      engineAttemptId
      text
    }
    totalLines
    missing {
      from
      to
    }
    matches
    totalMatches
  }
}
    `) as unknown as TypedDocumentString<StepLogQuery, StepLogQueryVariables>;
export const StartRunDocument = new TypedDocumentString(`
    mutation StartRun($input: StartRunInput!) {
  startRun(input: $input) {
    run {
      runId
    }
    deduplicated
  }
}
    `) as unknown as TypedDocumentString<StartRunMutation, StartRunMutationVariables>;
export const SignalRunDocument = new TypedDocumentString(`
    mutation SignalRun($input: SignalRunInput!) {
  signalRun(input: $input) {
    signal {
      ...SignalFields
    }
  }
}
    fragment SignalFields on Signal {
  signalId
  runId
  type
  typeRaw
  stepId
  actor
  reason
  decision
  rejection {
    code
    message
  }
  application
  applicationReason
  duplicate
  acceptedSeq
  appliedSeq
  quiescentSeq
  receivedAt
  deliveredAt
  appliedAt
}`) as unknown as TypedDocumentString<SignalRunMutation, SignalRunMutationVariables>;
export const RerunRunDocument = new TypedDocumentString(`
    mutation RerunRun($input: RerunInput!) {
  rerun(input: $input) {
    run {
      runId
    }
  }
}
    `) as unknown as TypedDocumentString<RerunRunMutation, RerunRunMutationVariables>;
export const CancelRunDocument = new TypedDocumentString(`
    mutation CancelRun($input: CancelRunInput!) {
  cancelRun(input: $input) {
    signal {
      ...SignalFields
    }
  }
}
    fragment SignalFields on Signal {
  signalId
  runId
  type
  typeRaw
  stepId
  actor
  reason
  decision
  rejection {
    code
    message
  }
  application
  applicationReason
  duplicate
  acceptedSeq
  appliedSeq
  quiescentSeq
  receivedAt
  deliveredAt
  appliedAt
}`) as unknown as TypedDocumentString<CancelRunMutation, CancelRunMutationVariables>;
export const RunUpdatesDocument = new TypedDocumentString(`
    subscription RunUpdates($runId: String!, $after: Seq, $storeEpoch: String) {
  runUpdates(runId: $runId, after: $after, storeEpoch: $storeEpoch, mode: DELTA) {
    sync
    reason
    runSeq
    headSeq
    storeEpoch
    opsRev
    asOf
    lagMs
    reset
    snapshot {
      ...RunHeader
      steps {
        ...StepFields
      }
    }
    delta {
      fromSeq
      toSeq
      header {
        ...RunHeader
      }
      steps {
        ...StepFields
      }
    }
  }
}
    fragment ErrorOfStep on StepError {
  code
  message
  retryable
  category
  source
}
fragment StepFields on Step {
  stepId
  type
  name
  group
  dependsOn
  status
  statusRaw
  substatus
  logicalAttemptId
  engineAttemptId
  startedAt
  completedAt
  durationMs
  error {
    ...ErrorOfStep
  }
  artifacts {
    uri
    kind
    sha256
    sizeBytes
  }
  skip {
    reason
    reasonCode
  }
  result
  keptFrom
  pendingRetry
  attempts {
    logicalAttemptId
    engineAttemptId
    status
    statusRaw
    startedAt
    completedAt
    durationMs
    lastTryMs
    startedSeq
    endedSeq
    error {
      ...ErrorOfStep
    }
    skip {
      reason
      reasonCode
    }
  }
  taskQueue
  resourceClass
  changedSeq
  nodeCounts {
    total
    running
    success
    warn
    failed
    skipped
    unfinished
  }
  wait {
    kind
    since
    until
    blockingSteps
    who
    taskQueue
  }
}
fragment RunRow on Run {
  runId
  projectId
  environmentId
  status
  statusRaw
  substatus
  message
  runSeq
  storeEpoch
  opsRev
  plan {
    planId
    planVersion
    sha256
  }
  triggeredBy
  createdAt
  startedAt
  completedAt
  totalDurationMs
  stepCounts {
    total
    pending
    running
    success
    failed
    skipped
    stopped
    kept
  }
  failedSteps
  rootCause {
    stepId
    stepName
    logicalAttemptId
    code
    category
    message
    retryable
    firstSeq
    blockedSteps
    heldSteps
  }
  cancellation {
    signalId
    signalType
    actor
    reason
    code
    at
    runSeq
  }
  pause {
    requestedBy
    reason
    since
    draining
  }
  deadline
  retryDeadline
  waitsForApprovals {
    given
    required
  }
  queue {
    status
    createdAt
    notBefore
    attempts
  }
}
fragment RunHeader on Run {
  retryWindowMs
  ...RunRow
  tenantId
  parentRunId
  engine {
    provider
    workflowId
  }
}`) as unknown as TypedDocumentString<RunUpdatesSubscription, RunUpdatesSubscriptionVariables>;
export const RunEventsDocument = new TypedDocumentString(`
    subscription RunEvents($runId: String!, $after: Seq, $storeEpoch: String) {
  runEvents(runId: $runId, after: $after, storeEpoch: $storeEpoch) {
    sync
    reason
    headSeq
    storeEpoch
    asOf
    reset
    events {
      ...EventFields
    }
  }
}
    fragment EventFields on RunEvent {
  eventId
  eventType
  runSeq
  stepId
  logicalAttemptId
  engineAttemptId
  persistedAt
  emittedBy
  payload
}`) as unknown as TypedDocumentString<RunEventsSubscription, RunEventsSubscriptionVariables>;
export const RunListDocument = new TypedDocumentString(`
    subscription RunList($filter: RunFilter, $first: Int!) {
  runListUpdates(filter: $filter, first: $first) {
    sync
    reason
    asOf
    reset
    runs {
      ...RunRow
    }
    removed
  }
}
    fragment RunRow on Run {
  runId
  projectId
  environmentId
  status
  statusRaw
  substatus
  message
  runSeq
  storeEpoch
  opsRev
  plan {
    planId
    planVersion
    sha256
  }
  triggeredBy
  createdAt
  startedAt
  completedAt
  totalDurationMs
  stepCounts {
    total
    pending
    running
    success
    failed
    skipped
    stopped
    kept
  }
  failedSteps
  rootCause {
    stepId
    stepName
    logicalAttemptId
    code
    category
    message
    retryable
    firstSeq
    blockedSteps
    heldSteps
  }
  cancellation {
    signalId
    signalType
    actor
    reason
    code
    at
    runSeq
  }
  pause {
    requestedBy
    reason
    since
    draining
  }
  deadline
  retryDeadline
  waitsForApprovals {
    given
    required
  }
  queue {
    status
    createdAt
    notBefore
    attempts
  }
}`) as unknown as TypedDocumentString<RunListSubscription, RunListSubscriptionVariables>;
export const SignalUpdatesDocument = new TypedDocumentString(`
    subscription SignalUpdates($runId: String!) {
  signalUpdates(runId: $runId) {
    ...SignalFields
  }
}
    fragment SignalFields on Signal {
  signalId
  runId
  type
  typeRaw
  stepId
  actor
  reason
  decision
  rejection {
    code
    message
  }
  application
  applicationReason
  duplicate
  acceptedSeq
  appliedSeq
  quiescentSeq
  receivedAt
  deliveredAt
  appliedAt
}`) as unknown as TypedDocumentString<SignalUpdatesSubscription, SignalUpdatesSubscriptionVariables>;
export const StepLogUpdatesDocument = new TypedDocumentString(`
    subscription StepLogUpdates($runId: String!, $stepId: String!, $attempt: Int, $fromLine: Int!) {
  stepLogUpdates(
    runId: $runId
    stepId: $stepId
    attempt: $attempt
    fromLine: $fromLine
  ) {
    attempt
    lines {
      no
      at
      stream
      engineAttemptId
      text
    }
    totalLines
    missing {
      from
      to
    }
    complete
    asOf
  }
}
    `) as unknown as TypedDocumentString<StepLogUpdatesSubscription, StepLogUpdatesSubscriptionVariables>;
export const ShareLinksDocument = new TypedDocumentString(`
    query ShareLinks {
  service {
    shareLinkHours
  }
}
    `) as unknown as TypedDocumentString<ShareLinksQuery, ShareLinksQueryVariables>;
export const ShareRunDocument = new TypedDocumentString(`
    mutation ShareRun($input: ShareRunInput!) {
  shareRun(input: $input) {
    path
    expiresAt
  }
}
    `) as unknown as TypedDocumentString<ShareRunMutation, ShareRunMutationVariables>;
export const ServiceUpdatesDocument = new TypedDocumentString(`
    subscription ServiceUpdates {
  serviceUpdates {
    mode
    modeReason
    modeSince
    frozen
    frozenReason
    frozenSince
    degraded
  }
}
    `) as unknown as TypedDocumentString<ServiceUpdatesSubscription, ServiceUpdatesSubscriptionVariables>;
export const RunPlanDocument = new TypedDocumentString(`
    query RunPlan($runId: String!) {
  run(runId: $runId) {
    planDocument
  }
}
    `) as unknown as TypedDocumentString<RunPlanQuery, RunPlanQueryVariables>;
export const PollerSeenDocument = new TypedDocumentString(`
    query PollerSeen($runId: String!, $stepId: String!) {
  run(runId: $runId) {
    step(stepId: $stepId) {
      wait {
        kind
        until
        taskQueue
        pollerSeenAt
      }
    }
  }
}
    `) as unknown as TypedDocumentString<PollerSeenQuery, PollerSeenQueryVariables>;
export const RunWaitsDocument = new TypedDocumentString(`
    query RunWaits($runId: String!) {
  run(runId: $runId) {
    runSeq
    startedAt
    waits {
      kind
      since
      until
      message
      help
      whoCould
      steps
      stepCount
      try
      tries
    }
  }
}
    `) as unknown as TypedDocumentString<RunWaitsQuery, RunWaitsQueryVariables>;
export const StepEvidenceDocument = new TypedDocumentString(`
    query StepEvidence($runId: String!, $stepId: String!, $attempt: Int) {
  run(runId: $runId) {
    step(stepId: $stepId) {
      evidence(attempt: $attempt) {
        tries {
          engineAttemptId
          outcome
          worker
          startedAt
          endedAt
          lastHeartbeatAt
          errorCode
          exitStatus
          signal
          logBytes
          stack
        }
        compensation {
          compensated
          attempts
          endedAt
          errorCode
          errorMessage
        }
      }
    }
  }
}
    `) as unknown as TypedDocumentString<StepEvidenceQuery, StepEvidenceQueryVariables>;
export const StepInputsDocument = new TypedDocumentString(`
    query StepInputs($runId: String!, $stepId: String!, $attempt: Int) {
  run(runId: $runId) {
    step(stepId: $stepId) {
      secrets(attempt: $attempt) {
        provider
        key
        version
        as
        resolved
        answeredBy
        answeredVersion
        readAt
        cached
        code
      }
      inputs(attempt: $attempt) {
        inputs
        params
        secrets {
          provider
          key
          version
        }
        changes {
          ...SignalFields
        }
      }
    }
  }
}
    fragment SignalFields on Signal {
  signalId
  runId
  type
  typeRaw
  stepId
  actor
  reason
  decision
  rejection {
    code
    message
  }
  application
  applicationReason
  duplicate
  acceptedSeq
  appliedSeq
  quiescentSeq
  receivedAt
  deliveredAt
  appliedAt
}`) as unknown as TypedDocumentString<StepInputsQuery, StepInputsQueryVariables>;
export const PlanDiffDocument = new TypedDocumentString(`
    query PlanDiff($runId: String!) {
  run(runId: $runId) {
    planDiff {
      previous {
        runId
        planVersion
        createdAt
      }
      total
      added
      removed
      changed
      parts {
        ...PlanParts
      }
      steps {
        stepId
        change
        parts {
          ...PlanParts
        }
      }
    }
  }
}
    fragment PlanParts on PlanPartDiff {
  path
  from
  to
}`) as unknown as TypedDocumentString<PlanDiffQuery, PlanDiffQueryVariables>;
export const LogSearchDocument = new TypedDocumentString(`
    query LogSearch($in: LogSearchInput!, $find: String!, $first: Int!, $after: String) {
  logSearch(in: $in, find: $find, first: $first, after: $after) {
    edges {
      node {
        runId
        runCreatedAt
        stepId
        stepName
        attempt
        totalMatches
        partial
        lines {
          no
          text
        }
      }
    }
    pageInfo {
      endCursor
      hasNextPage
    }
  }
}
    `) as unknown as TypedDocumentString<LogSearchQuery, LogSearchQueryVariables>;
export const SignalSequelDocument = new TypedDocumentString(`
    query SignalSequel($runId: String!, $stepId: String!, $ofStep: Boolean!) {
  run(runId: $runId) {
    runSeq
    status
    substatus
    plan {
      planId
    }
    pause {
      draining
    }
    step(stepId: $stepId) @include(if: $ofStep) {
      name
      status
      changedSeq
      startedAt
      completedAt
      attempts {
        status
        startedAt
        completedAt
        startedSeq
      }
    }
  }
}
    `) as unknown as TypedDocumentString<SignalSequelQuery, SignalSequelQueryVariables>;
export const DeadLettersDocument = new TypedDocumentString(`
    query DeadLetters($runId: String, $open: Boolean!, $first: Int!, $after: String) {
  deadLetters(runId: $runId, open: $open, first: $first, after: $after) {
    edges {
      node {
        ...LetterFields
      }
    }
    pageInfo {
      ...PageFields
    }
  }
}
    fragment PageFields on PageInfo {
  endCursor
  hasNextPage
}
fragment LetterFields on DeadLetter {
  id
  projectId
  runId
  fromSeq
  toSeq
  attempts
  cause
  buriedAt
  redrivenAt
}`) as unknown as TypedDocumentString<DeadLettersQuery, DeadLettersQueryVariables>;
export const RedriveDocument = new TypedDocumentString(`
    mutation Redrive($input: RedriveDeadLettersInput!) {
  redriveDeadLetters(input: $input) {
    results {
      id
      outcome
      code
      message
      letter {
        ...LetterFields
      }
    }
    more
  }
}
    fragment LetterFields on DeadLetter {
  id
  projectId
  runId
  fromSeq
  toSeq
  attempts
  cause
  buriedAt
  redrivenAt
}`) as unknown as TypedDocumentString<RedriveMutation, RedriveMutationVariables>;
export const AuditDocument = new TypedDocumentString(`
    query Audit($filter: AuditFilter, $first: Int!, $after: String) {
  audit(filter: $filter, first: $first, after: $after) {
    edges {
      node {
        ...AuditFields
      }
    }
    searched {
      from
      to
    }
    pageInfo {
      ...PageFields
    }
  }
}
    fragment PageFields on PageInfo {
  endCursor
  hasNextPage
}
fragment AuditFields on AuditEntry {
  no
  id
  hash
  row {
    at
    tenantId
    actor
    action
    runId
    signalId
    outcome
    code
    reason
    requestId
    detail
    format
    credential
    address
    via
    object
    digest
  }
}`) as unknown as TypedDocumentString<AuditQuery, AuditQueryVariables>;
export const SignalSeqDocument = new TypedDocumentString(`
    query SignalSeq($runId: String!, $signalId: String!) {
  signal(runId: $runId, signalId: $signalId) {
    acceptedSeq
    appliedSeq
  }
}
    `) as unknown as TypedDocumentString<SignalSeqQuery, SignalSeqQueryVariables>;
export const LetterEventsDocument = new TypedDocumentString(`
    query LetterEvents($runId: String!, $after: Seq!) {
  run(runId: $runId) {
    events(first: 50, after: $after) {
      edges {
        node {
          ...EventFields
        }
      }
    }
  }
}
    fragment EventFields on RunEvent {
  eventId
  eventType
  runSeq
  stepId
  logicalAttemptId
  engineAttemptId
  persistedAt
  emittedBy
  payload
}`) as unknown as TypedDocumentString<LetterEventsQuery, LetterEventsQueryVariables>;
export const RightHoldersDocument = new TypedDocumentString(`
    query RightHolders($actions: [Action!]!) {
  rightHolders(actions: $actions) {
    action
    needs
    names
    more
  }
}
    `) as unknown as TypedDocumentString<RightHoldersQuery, RightHoldersQueryVariables>;
export const WhoCouldDocument = new TypedDocumentString(`
    query WhoCould($action: String!, $runId: String, $projectId: String, $environmentId: String) {
  whoCould(
    action: $action
    runId: $runId
    projectId: $projectId
    environmentId: $environmentId
  )
}
    `) as unknown as TypedDocumentString<WhoCouldQuery, WhoCouldQueryVariables>;
export const QueueDocument = new TypedDocumentString(`
    query Queue($first: Int!, $after: String) {
  queue(first: $first, after: $after) {
    depth
    edges {
      node {
        runId
        planId
        planVersion
        projectId
        environmentId
        triggeredBy
        priority
        createdAt
        expiresAt
        waitsFor
        position
        estimatedWaitMs
        slots {
          scope
          active
          max
        }
      }
    }
    pageInfo {
      ...PageFields
    }
  }
}
    fragment PageFields on PageInfo {
  endCursor
  hasNextPage
}`) as unknown as TypedDocumentString<QueueQuery, QueueQueryVariables>;
export const SlotHoldersDocument = new TypedDocumentString(`
    query SlotHolders($first: Int!, $projectId: String) {
  runs(
    first: $first
    filter: {statuses: [APPROVED, RUNNING, PAUSED], projectId: $projectId}
    orderBy: CREATED_ASC
  ) {
    edges {
      node {
        ...RunRow
      }
    }
    pageInfo {
      hasNextPage
    }
  }
  quotas {
    projectId
    active
    maxActive
  }
}
    fragment RunRow on Run {
  runId
  projectId
  environmentId
  status
  statusRaw
  substatus
  message
  runSeq
  storeEpoch
  opsRev
  plan {
    planId
    planVersion
    sha256
  }
  triggeredBy
  createdAt
  startedAt
  completedAt
  totalDurationMs
  stepCounts {
    total
    pending
    running
    success
    failed
    skipped
    stopped
    kept
  }
  failedSteps
  rootCause {
    stepId
    stepName
    logicalAttemptId
    code
    category
    message
    retryable
    firstSeq
    blockedSteps
    heldSteps
  }
  cancellation {
    signalId
    signalType
    actor
    reason
    code
    at
    runSeq
  }
  pause {
    requestedBy
    reason
    since
    draining
  }
  deadline
  retryDeadline
  waitsForApprovals {
    given
    required
  }
  queue {
    status
    createdAt
    notBefore
    attempts
  }
}`) as unknown as TypedDocumentString<SlotHoldersQuery, SlotHoldersQueryVariables>;
export const GivenUpDocument = new TypedDocumentString(`
    query GivenUp($from: Time!, $first: Int!) {
  runs(first: $first, filter: {statuses: [FAILED], createdFrom: $from}) {
    edges {
      node {
        ...RunRow
      }
    }
  }
}
    fragment RunRow on Run {
  runId
  projectId
  environmentId
  status
  statusRaw
  substatus
  message
  runSeq
  storeEpoch
  opsRev
  plan {
    planId
    planVersion
    sha256
  }
  triggeredBy
  createdAt
  startedAt
  completedAt
  totalDurationMs
  stepCounts {
    total
    pending
    running
    success
    failed
    skipped
    stopped
    kept
  }
  failedSteps
  rootCause {
    stepId
    stepName
    logicalAttemptId
    code
    category
    message
    retryable
    firstSeq
    blockedSteps
    heldSteps
  }
  cancellation {
    signalId
    signalType
    actor
    reason
    code
    at
    runSeq
  }
  pause {
    requestedBy
    reason
    since
    draining
  }
  deadline
  retryDeadline
  waitsForApprovals {
    given
    required
  }
  queue {
    status
    createdAt
    notBefore
    attempts
  }
}`) as unknown as TypedDocumentString<GivenUpQuery, GivenUpQueryVariables>;
export const WaitsDocument = new TypedDocumentString(`
    query Waits {
  queue(first: 100) {
    edges {
      node {
        runId
        position
        waitsFor
        slots {
          active
          max
        }
      }
    }
  }
  attention(first: 200) {
    edges {
      node {
        kind
        runId
        deadline
        actions
        whoCould
        stuck
      }
    }
  }
}
    `) as unknown as TypedDocumentString<WaitsQuery, WaitsQueryVariables>;
export const TasksDocument = new TypedDocumentString(`
    query Tasks($first: Int!, $after: String) {
  manualTasks(first: $first, after: $after) {
    edges {
      node {
        ...TaskFields
      }
    }
    pageInfo {
      ...PageFields
    }
  }
}
    fragment ActionFields on ActionAvailability {
  action
  outcome
  code
  reason
  rule
  requiredRole
  whoCould
  reasonRequired
  strength
}
fragment PageFields on PageInfo {
  endCursor
  hasNextPage
}
fragment TaskFields on ManualTask {
  runId
  stepId
  stepName
  logicalAttemptId
  projectId
  environmentId
  instructions
  since
  deadline
  token
  action {
    ...ActionFields
  }
}`) as unknown as TypedDocumentString<TasksQuery, TasksQueryVariables>;
export const RunParamsDocument = new TypedDocumentString(`
    query RunParams($runId: String!) {
  run(runId: $runId) {
    request {
      params
    }
  }
}
    `) as unknown as TypedDocumentString<RunParamsQuery, RunParamsQueryVariables>;
export const RunRequestDocument = new TypedDocumentString(`
    query RunRequest($runId: String!) {
  run(runId: $runId) {
    request {
      steps
      params
    }
    planDiff {
      previous {
        planVersion
      }
      added
      removed
      changed
    }
  }
}
    `) as unknown as TypedDocumentString<RunRequestQuery, RunRequestQueryVariables>;
export const DecisionsDocument = new TypedDocumentString(`
    query Decisions {
  viewer {
    decisions(first: 50) {
      runId
      planId
      planVersion
      projectId
      environmentId
      decision
      at
      approval {
        ...ApprovalFields
      }
    }
  }
}
    fragment ApprovalFields on RunApproval {
  required
  expiresAt
  decisions {
    principal
    decision
    reason
    at
  }
}`) as unknown as TypedDocumentString<DecisionsQuery, DecisionsQueryVariables>;
export const ApprovalsDocument = new TypedDocumentString(`
    query Approvals($first: Int!, $after: String) {
  approvals(first: $first, after: $after) {
    edges {
      node {
        runId
        projectId
        environmentId
        runSeq
        triggeredBy
        createdAt
        plan {
          planId
          planVersion
        }
        approval {
          ...ApprovalFields
        }
        actions {
          ...ActionFields
          mayReject
        }
      }
    }
    pageInfo {
      ...PageFields
    }
  }
}
    fragment ActionFields on ActionAvailability {
  action
  outcome
  code
  reason
  rule
  requiredRole
  whoCould
  reasonRequired
  strength
}
fragment PageFields on PageInfo {
  endCursor
  hasNextPage
}
fragment ApprovalFields on RunApproval {
  required
  expiresAt
  decisions {
    principal
    decision
    reason
    at
  }
}`) as unknown as TypedDocumentString<ApprovalsQuery, ApprovalsQueryVariables>;
export const ApproveDocument = new TypedDocumentString(`
    mutation Approve($input: ApproveRunInput!) {
  approveRun(input: $input) {
    run {
      runId
      status
    }
    change {
      ...ChangeFields
    }
  }
}
    fragment ChangeFields on ChangeReceipt {
  action
  requestId
  actor
  at
  version
  versionBefore
}`) as unknown as TypedDocumentString<ApproveMutation, ApproveMutationVariables>;
export const CompleteStepDocument = new TypedDocumentString(`
    mutation CompleteStep($input: CompleteManualStepInput!) {
  completeManualStep(input: $input) {
    signal {
      ...SignalFields
    }
  }
}
    fragment SignalFields on Signal {
  signalId
  runId
  type
  typeRaw
  stepId
  actor
  reason
  decision
  rejection {
    code
    message
  }
  application
  applicationReason
  duplicate
  acceptedSeq
  appliedSeq
  quiescentSeq
  receivedAt
  deliveredAt
  appliedAt
}`) as unknown as TypedDocumentString<CompleteStepMutation, CompleteStepMutationVariables>;
export const HealthDocument = new TypedDocumentString(`
    query Health {
  health {
    status
    checks {
      name
      status
      configured
      latencyMs
      message
    }
  }
}
    `) as unknown as TypedDocumentString<HealthQuery, HealthQueryVariables>;
export const QuotasDocument = new TypedDocumentString(`
    query Quotas {
  quotas {
    projectId
    active
    maxActive
    queueDepth
    maxQueueDepth
    buckets {
      action
      perMinute
      tokensRemaining
      usedPercent
      nextRefillAt
    }
  }
}
    `) as unknown as TypedDocumentString<QuotasQuery, QuotasQueryVariables>;
export const TokensDocument = new TypedDocumentString(`
    query Tokens($all: Boolean!, $live: Boolean!, $first: Int!, $after: String) {
  tokens(all: $all, live: $live, first: $first, after: $after) {
    edges {
      node {
        ...TokenFields
      }
    }
    pageInfo {
      ...PageFields
    }
  }
}
    fragment PageFields on PageInfo {
  endCursor
  hasNextPage
}
fragment TokenFields on Token {
  tokenId
  name
  prefix
  principal
  grants {
    role
    projectId
    environmentId
  }
  createdBy
  createdAt
  expiresAt
  revokedAt
  lastUsedAt
}`) as unknown as TypedDocumentString<TokensQuery, TokensQueryVariables>;
export const CreateTokenDocument = new TypedDocumentString(`
    mutation CreateToken($input: CreateTokenInput!) {
  createToken(input: $input) {
    token {
      ...TokenFields
    }
    secret
    change {
      ...ChangeFields
    }
  }
}
    fragment ChangeFields on ChangeReceipt {
  action
  requestId
  actor
  at
  version
  versionBefore
}
fragment TokenFields on Token {
  tokenId
  name
  prefix
  principal
  grants {
    role
    projectId
    environmentId
  }
  createdBy
  createdAt
  expiresAt
  revokedAt
  lastUsedAt
}`) as unknown as TypedDocumentString<CreateTokenMutation, CreateTokenMutationVariables>;
export const RevokeTokenDocument = new TypedDocumentString(`
    mutation RevokeToken($input: RevokeTokenInput!) {
  revokeToken(input: $input) {
    token {
      ...TokenFields
    }
    change {
      ...ChangeFields
    }
  }
}
    fragment ChangeFields on ChangeReceipt {
  action
  requestId
  actor
  at
  version
  versionBefore
}
fragment TokenFields on Token {
  tokenId
  name
  prefix
  principal
  grants {
    role
    projectId
    environmentId
  }
  createdBy
  createdAt
  expiresAt
  revokedAt
  lastUsedAt
}`) as unknown as TypedDocumentString<RevokeTokenMutation, RevokeTokenMutationVariables>;
export const PolicyDocument = new TypedDocumentString(`
    query Policy {
  policy {
    ...PolicyFields
  }
}
    fragment PolicyFields on Policy {
  version
  defaultRules
  rules {
    role
    action
    projectId
    environmentId
  }
  grants {
    principal
    role
    projectId
    environmentId
    expiresAt
    breakGlass
  }
  sod {
    approve
    completeManual
    completeManualInEveryPlan
  }
  approvals {
    projectId
    environmentId
    required
  }
  breakGlass {
    principal
    role
    maxMinutes
  }
  sandbox {
    projectId
    environmentId
    memory
    cpu
    pids
    disk
    connect
    require
  }
  actor
  reason
  at
}`) as unknown as TypedDocumentString<PolicyQuery, PolicyQueryVariables>;
export const PolicyHistoryDocument = new TypedDocumentString(`
    query PolicyHistory($first: Int!, $after: String) {
  policyHistory(first: $first, after: $after) {
    edges {
      node {
        ...PolicyFields
        changed
        onlyBreakGlass
      }
    }
    pageInfo {
      ...PageFields
    }
  }
}
    fragment PageFields on PageInfo {
  endCursor
  hasNextPage
}
fragment PolicyFields on Policy {
  version
  defaultRules
  rules {
    role
    action
    projectId
    environmentId
  }
  grants {
    principal
    role
    projectId
    environmentId
    expiresAt
    breakGlass
  }
  sod {
    approve
    completeManual
    completeManualInEveryPlan
  }
  approvals {
    projectId
    environmentId
    required
  }
  breakGlass {
    principal
    role
    maxMinutes
  }
  sandbox {
    projectId
    environmentId
    memory
    cpu
    pids
    disk
    connect
    require
  }
  actor
  reason
  at
}`) as unknown as TypedDocumentString<PolicyHistoryQuery, PolicyHistoryQueryVariables>;
export const QuotaHistoryDocument = new TypedDocumentString(`
    query QuotaHistory($first: Int!, $after: String) {
  quotaHistory(first: $first, after: $after) {
    edges {
      node {
        ...QuotaFields
        changed
      }
    }
    pageInfo {
      ...PageFields
    }
  }
}
    fragment PageFields on PageInfo {
  endCursor
  hasNextPage
}
fragment LimitFields on QuotaLimits {
  startRunPerMinute
  heavyStepsPerMinute
  signalOpsPerMinute
  maxActive
  maxQueueDepth
}
fragment QuotaFields on QuotaSettings {
  version
  tier
  tenant {
    ...LimitFields
  }
  projects {
    projectId
    limits {
      ...LimitFields
    }
    weight
  }
  strategy
  ttlMs
  actor
  reason
  at
}`) as unknown as TypedDocumentString<QuotaHistoryQuery, QuotaHistoryQueryVariables>;
export const CapabilitiesDocument = new TypedDocumentString(`
    query Capabilities {
  capabilities {
    engine
    name
    support
    note
  }
}
    `) as unknown as TypedDocumentString<CapabilitiesQuery, CapabilitiesQueryVariables>;
export const SetPolicyDocument = new TypedDocumentString(`
    mutation SetPolicy($input: SetPolicyInput!) {
  setPolicy(input: $input) {
    policy {
      ...PolicyFields
    }
    effect {
      changed
      warnings
    }
    change {
      ...ChangeFields
    }
  }
}
    fragment ChangeFields on ChangeReceipt {
  action
  requestId
  actor
  at
  version
  versionBefore
}
fragment PolicyFields on Policy {
  version
  defaultRules
  rules {
    role
    action
    projectId
    environmentId
  }
  grants {
    principal
    role
    projectId
    environmentId
    expiresAt
    breakGlass
  }
  sod {
    approve
    completeManual
    completeManualInEveryPlan
  }
  approvals {
    projectId
    environmentId
    required
  }
  breakGlass {
    principal
    role
    maxMinutes
  }
  sandbox {
    projectId
    environmentId
    memory
    cpu
    pids
    disk
    connect
    require
  }
  actor
  reason
  at
}`) as unknown as TypedDocumentString<SetPolicyMutation, SetPolicyMutationVariables>;
export const PreviewPolicyDocument = new TypedDocumentString(`
    query PreviewPolicy($document: PolicyInput!) {
  preview: previewPolicy(document: $document) {
    changed
    warnings
  }
}
    `) as unknown as TypedDocumentString<PreviewPolicyQuery, PreviewPolicyQueryVariables>;
export const PreviewQuotaDocument = new TypedDocumentString(`
    query PreviewQuota($settings: QuotaSettingsInput!) {
  preview: previewQuota(settings: $settings) {
    changed
    warnings
  }
}
    `) as unknown as TypedDocumentString<PreviewQuotaQuery, PreviewQuotaQueryVariables>;
export const RunByStartDocument = new TypedDocumentString(`
    query RunByStart($text: String!) {
  runs(first: 50, filter: {text: $text}) {
    edges {
      node {
        runId
      }
    }
  }
}
    `) as unknown as TypedDocumentString<RunByStartQuery, RunByStartQueryVariables>;
export const SetShareLinksDocument = new TypedDocumentString(`
    mutation SetShareLinks($input: SetShareLinksInput!) {
  setShareLinks(input: $input) {
    service {
      ...ServiceFields
    }
    change {
      ...ChangeFields
    }
  }
}
    fragment ChangeFields on ChangeReceipt {
  action
  requestId
  actor
  at
  version
  versionBefore
}
fragment ServiceFields on ServiceState {
  mode
  modeReason
  modeSince
  frozen
  frozenReason
  frozenSince
  degraded
  retryAfterMs
  activeRuns
  shareLinkHours
}`) as unknown as TypedDocumentString<SetShareLinksMutation, SetShareLinksMutationVariables>;
export const QuotaSettingsDocument = new TypedDocumentString(`
    query QuotaSettings {
  quotaSettings {
    ...QuotaFields
    tierLimits {
      ...LimitFields
    }
  }
}
    fragment LimitFields on QuotaLimits {
  startRunPerMinute
  heavyStepsPerMinute
  signalOpsPerMinute
  maxActive
  maxQueueDepth
}
fragment QuotaFields on QuotaSettings {
  version
  tier
  tenant {
    ...LimitFields
  }
  projects {
    projectId
    limits {
      ...LimitFields
    }
    weight
  }
  strategy
  ttlMs
  actor
  reason
  at
}`) as unknown as TypedDocumentString<QuotaSettingsQuery, QuotaSettingsQueryVariables>;
export const SetQuotaDocument = new TypedDocumentString(`
    mutation SetQuota($input: SetQuotaInput!) {
  setQuota(input: $input) {
    settings {
      ...QuotaFields
    }
    change {
      ...ChangeFields
    }
  }
}
    fragment ChangeFields on ChangeReceipt {
  action
  requestId
  actor
  at
  version
  versionBefore
}
fragment LimitFields on QuotaLimits {
  startRunPerMinute
  heavyStepsPerMinute
  signalOpsPerMinute
  maxActive
  maxQueueDepth
}
fragment QuotaFields on QuotaSettings {
  version
  tier
  tenant {
    ...LimitFields
  }
  projects {
    projectId
    limits {
      ...LimitFields
    }
    weight
  }
  strategy
  ttlMs
  actor
  reason
  at
}`) as unknown as TypedDocumentString<SetQuotaMutation, SetQuotaMutationVariables>;
export const ServiceDocument = new TypedDocumentString(`
    query Service {
  service {
    ...ServiceFields
  }
}
    fragment ServiceFields on ServiceState {
  mode
  modeReason
  modeSince
  frozen
  frozenReason
  frozenSince
  degraded
  retryAfterMs
  activeRuns
  shareLinkHours
}`) as unknown as TypedDocumentString<ServiceQuery, ServiceQueryVariables>;
export const SetModeDocument = new TypedDocumentString(`
    mutation SetMode($input: SetEngineModeInput!) {
  setEngineMode(input: $input) {
    service {
      ...ServiceFields
    }
    change {
      ...ChangeFields
    }
  }
}
    fragment ChangeFields on ChangeReceipt {
  action
  requestId
  actor
  at
  version
  versionBefore
}
fragment ServiceFields on ServiceState {
  mode
  modeReason
  modeSince
  frozen
  frozenReason
  frozenSince
  degraded
  retryAfterMs
  activeRuns
  shareLinkHours
}`) as unknown as TypedDocumentString<SetModeMutation, SetModeMutationVariables>;
export const FreezeDocument = new TypedDocumentString(`
    mutation Freeze($input: FreezeTenantInput!) {
  freezeTenant(input: $input) {
    service {
      ...ServiceFields
    }
    change {
      ...ChangeFields
    }
  }
}
    fragment ChangeFields on ChangeReceipt {
  action
  requestId
  actor
  at
  version
  versionBefore
}
fragment ServiceFields on ServiceState {
  mode
  modeReason
  modeSince
  frozen
  frozenReason
  frozenSince
  degraded
  retryAfterMs
  activeRuns
  shareLinkHours
}`) as unknown as TypedDocumentString<FreezeMutation, FreezeMutationVariables>;
export const InboxUpdatesDocument = new TypedDocumentString(`
    subscription InboxUpdates {
  inboxUpdates {
    reset
    count
    changed {
      runId
      stepId
    }
    removed {
      runId
      stepId
    }
  }
}
    `) as unknown as TypedDocumentString<InboxUpdatesSubscription, InboxUpdatesSubscriptionVariables>;
export const CancelBulkDocument = new TypedDocumentString(`
    mutation CancelBulk($input: CancelBulkInput!) {
  cancelBulk(input: $input) {
    bulk {
      id
      state
    }
  }
}
    `) as unknown as TypedDocumentString<CancelBulkMutation, CancelBulkMutationVariables>;
export const BulksDocument = new TypedDocumentString(`
    query Bulks($first: Int!, $after: String) {
  bulks(first: $first, after: $after) {
    edges {
      node {
        ...BulkFields
      }
    }
    pageInfo {
      ...PageFields
    }
  }
}
    fragment PageFields on PageInfo {
  endCursor
  hasNextPage
}
fragment BulkFields on Bulk {
  id
  state
  action
  type
  typeRaw
  stepId
  payload
  reason
  createdAt
  finishedAt
  stoppedAt
  pacedCode
  pacedUntil
  leftOut
  counts {
    total
    waiting
    accepted
    rejected
    refused
    notSent
  }
}`) as unknown as TypedDocumentString<BulksQuery, BulksQueryVariables>;
export const BulkRowsDocument = new TypedDocumentString(`
    query BulkRows($id: ID!, $outcome: BulkOutcome, $failed: Boolean!, $first: Int!, $after: String) {
  bulk(id: $id) {
    rows(outcome: $outcome, failed: $failed, first: $first, after: $after) {
      edges {
        node {
          ...BulkRowFields
        }
      }
      pageInfo {
        ...PageFields
      }
    }
  }
}
    fragment SignalFields on Signal {
  signalId
  runId
  type
  typeRaw
  stepId
  actor
  reason
  decision
  rejection {
    code
    message
  }
  application
  applicationReason
  duplicate
  acceptedSeq
  appliedSeq
  quiescentSeq
  receivedAt
  deliveredAt
  appliedAt
}
fragment PageFields on PageInfo {
  endCursor
  hasNextPage
}
fragment BulkRowFields on BulkRow {
  no
  runId
  projectId
  environmentId
  outcome
  outcomeRaw
  code
  message
  at
  failed
  newRunId
  runStatus
  planId
  causeStep
  causeCode
  causeMessage
  signal {
    ...SignalFields
  }
}`) as unknown as TypedDocumentString<BulkRowsQuery, BulkRowsQueryVariables>;
export const SignalRunsDocument = new TypedDocumentString(`
    mutation SignalRuns($input: SignalRunsInput!) {
  signalRuns(input: $input) {
    bulk {
      id
    }
  }
}
    `) as unknown as TypedDocumentString<SignalRunsMutation, SignalRunsMutationVariables>;
export const BulkUpdatesDocument = new TypedDocumentString(`
    subscription BulkUpdates($id: ID!) {
  bulkUpdates(id: $id) {
    sync
    reason
    asOf
    reset
    bulk {
      ...BulkProgress
    }
    rows {
      ...BulkRowFields
    }
  }
}
    fragment SignalFields on Signal {
  signalId
  runId
  type
  typeRaw
  stepId
  actor
  reason
  decision
  rejection {
    code
    message
  }
  application
  applicationReason
  duplicate
  acceptedSeq
  appliedSeq
  quiescentSeq
  receivedAt
  deliveredAt
  appliedAt
}
fragment BulkFields on Bulk {
  id
  state
  action
  type
  typeRaw
  stepId
  payload
  reason
  createdAt
  finishedAt
  stoppedAt
  pacedCode
  pacedUntil
  leftOut
  counts {
    total
    waiting
    accepted
    rejected
    refused
    notSent
  }
}
fragment BulkProgress on Bulk {
  ...BulkFields
  applications {
    pending
    delivered
    applied
    noop
    notApplied
  }
  runs {
    waiting
    running
    paused
    completed
    failed
    cancelled
  }
}
fragment BulkRowFields on BulkRow {
  no
  runId
  projectId
  environmentId
  outcome
  outcomeRaw
  code
  message
  at
  failed
  newRunId
  runStatus
  planId
  causeStep
  causeCode
  causeMessage
  signal {
    ...SignalFields
  }
}`) as unknown as TypedDocumentString<BulkUpdatesSubscription, BulkUpdatesSubscriptionVariables>;
export const BulkPreviewDocument = new TypedDocumentString(`
    query BulkPreview($action: ActionInput!) {
  preview(action: $action) {
    bulk {
      count
      excluded {
        code
        reason
        count
      }
      refusals {
        code
        reason
        count
      }
      samples {
        runId
        outcome
        code
        reason
        changes {
          kind
        }
      }
    }
  }
}
    `) as unknown as TypedDocumentString<BulkPreviewQuery, BulkPreviewQueryVariables>;
export const RunHistogramDocument = new TypedDocumentString(`
    query RunHistogram($filter: RunFilter, $from: Time!, $to: Time!, $buckets: Int!) {
  runHistogram(filter: $filter, from: $from, to: $to, buckets: $buckets) {
    from
    total
    failed
  }
}
    `) as unknown as TypedDocumentString<RunHistogramQuery, RunHistogramQueryVariables>;
export const HealthHistoryDocument = new TypedDocumentString(`
    query HealthHistory {
  healthHistory {
    server
    since
    intervalMs
    samples {
      at
      status
      lagP50Ms
      lagP99Ms
      framesPerSecond
      viewers
      streams
      staleStreams
      stateStoreMs
      temporalMs
    }
  }
}
    `) as unknown as TypedDocumentString<HealthHistoryQuery, HealthHistoryQueryVariables>;
export const BreakGlassDocument = new TypedDocumentString(`
    mutation BreakGlass($input: BreakGlassInput!) {
  breakGlass(input: $input) {
    role
    until
    policyVersion
    change {
      ...ChangeFields
    }
  }
}
    fragment ChangeFields on ChangeReceipt {
  action
  requestId
  actor
  at
  version
  versionBefore
}`) as unknown as TypedDocumentString<BreakGlassMutation, BreakGlassMutationVariables>;
export const EndBreakGlassDocument = new TypedDocumentString(`
    mutation EndBreakGlass($input: EndBreakGlassInput!) {
  endBreakGlass(input: $input) {
    policyVersion
    change {
      ...ChangeFields
    }
  }
}
    fragment ChangeFields on ChangeReceipt {
  action
  requestId
  actor
  at
  version
  versionBefore
}`) as unknown as TypedDocumentString<EndBreakGlassMutation, EndBreakGlassMutationVariables>;
export const KnownPlansDocument = new TypedDocumentString(`
    query KnownPlans($first: Int!) {
  runs(first: $first) {
    edges {
      node {
        runId
        projectId
        environmentId
        plan {
          planId
          planVersion
        }
      }
    }
  }
}
    `) as unknown as TypedDocumentString<KnownPlansQuery, KnownPlansQueryVariables>;
export const StartingPointDocument = new TypedDocumentString(`
    query StartingPoint($runId: String!) {
  run(runId: $runId) {
    planDocument
    request {
      params
    }
  }
}
    `) as unknown as TypedDocumentString<StartingPointQuery, StartingPointQueryVariables>;
export const BulkRunCountsDocument = new TypedDocumentString(`
    query BulkRunCounts($ids: [ID!]!) {
  bulkRunCounts(ids: $ids) {
    bulkId
    runs {
      waiting
      running
      paused
      completed
      failed
      cancelled
    }
  }
}
    `) as unknown as TypedDocumentString<BulkRunCountsQuery, BulkRunCountsQueryVariables>;
export const RunOriginDocument = new TypedDocumentString(`
    query RunOrigin($runId: String!) {
  run(runId: $runId) {
    projectId
    environmentId
    plan {
      planId
      planVersion
    }
  }
}
    `) as unknown as TypedDocumentString<RunOriginQuery, RunOriginQueryVariables>;
export const RunPlanRefDocument = new TypedDocumentString(`
    query RunPlanRef($runId: String!) {
  run(runId: $runId) {
    plan {
      schemaVersion
      schemaEnd
      uri
      compression
      mirrors
      answeredBy
      expiresAt
      schemaEvolutionPath
      migrationHint {
        sourceVersion
        targetVersion
        transformScript
      }
    }
  }
}
    `) as unknown as TypedDocumentString<RunPlanRefQuery, RunPlanRefQueryVariables>;
export const PausesDocument = new TypedDocumentString(`
    query Pauses($runId: String!) {
  run(runId: $runId) {
    events(last: 200, types: ["RunPaused", "RunResumed"]) {
      edges {
        node {
          ...EventFields
        }
      }
    }
  }
}
    fragment EventFields on RunEvent {
  eventId
  eventType
  runSeq
  stepId
  logicalAttemptId
  engineAttemptId
  persistedAt
  emittedBy
  payload
}`) as unknown as TypedDocumentString<PausesQuery, PausesQueryVariables>;
export const RunMarksDocument = new TypedDocumentString(`
    query RunMarks($runId: String!, $types: [String!]!, $last: Int!) {
  run(runId: $runId) {
    events(last: $last, types: $types) {
      edges {
        node {
          runSeq
          eventType
          stepId
          payload
        }
      }
    }
  }
}
    `) as unknown as TypedDocumentString<RunMarksQuery, RunMarksQueryVariables>;
export const PlansDocument = new TypedDocumentString(`
    query Plans($projectId: String, $environmentId: String, $text: String, $first: Int!, $after: String) {
  plans(
    projectId: $projectId
    environmentId: $environmentId
    text: $text
    first: $first
    after: $after
  ) {
    edges {
      node {
        ...PlanSummaryFields
      }
    }
    pageInfo {
      ...PageFields
    }
  }
}
    fragment PageFields on PageInfo {
  endCursor
  hasNextPage
}
fragment PlanRunFields on PlanRun {
  runId
  planVersion
  status
  statusRaw
  substatus
  triggeredBy
  createdAt
  durationMs
  workMs
}
fragment PlanSummaryFields on PlanSummary {
  projectId
  environmentId
  planId
  lastRunAt
  open
  waiting
  ended
  succeeded
  successRate
  medianMs
  medianWorkMs
  p90WorkMs
  recentMedianWorkMs
  next
  nextRunId
  runs {
    ...PlanRunFields
  }
}`) as unknown as TypedDocumentString<PlansQuery, PlansQueryVariables>;
export const PlanDocument = new TypedDocumentString(`
    query Plan($projectId: String!, $environmentId: String!, $planId: String!, $runs: Int!) {
  plan(
    projectId: $projectId
    environmentId: $environmentId
    planId: $planId
    runs: $runs
  ) {
    summary {
      ...PlanSummaryFields
    }
    countedRuns
    moreRuns
    versions {
      planVersion
      sha256
      firstUsedAt
      lastUsedAt
      runs
      lastRunId
    }
    starters {
      principal
      runs
      lastRunAt
      lastRunId
    }
    grid {
      leftOut
      runs {
        ...PlanRunFields
      }
      steps {
        stepId
        name
        cells {
          status
          statusRaw
          durationMs
          attempts
          kept
        }
      }
    }
  }
}
    fragment PlanRunFields on PlanRun {
  runId
  planVersion
  status
  statusRaw
  substatus
  triggeredBy
  createdAt
  durationMs
  workMs
}
fragment PlanSummaryFields on PlanSummary {
  projectId
  environmentId
  planId
  lastRunAt
  open
  waiting
  ended
  succeeded
  successRate
  medianMs
  medianWorkMs
  p90WorkMs
  recentMedianWorkMs
  next
  nextRunId
  runs {
    ...PlanRunFields
  }
}`) as unknown as TypedDocumentString<PlanQuery, PlanQueryVariables>;
export const PlanStepDocument = new TypedDocumentString(`
    query PlanStep($projectId: String!, $environmentId: String!, $planId: String!, $stepId: String!, $runs: Int!) {
  planStep(
    projectId: $projectId
    environmentId: $environmentId
    planId: $planId
    stepId: $stepId
    runs: $runs
  ) {
    countedRuns
    ran
    succeeded
    flaky
    medianMs
    p90Ms
    attempts {
      ...PastAttemptFields
    }
    failures {
      code
      count
      message
      last {
        ...PastAttemptFields
      }
    }
    lastGreen {
      ...PastAttemptFields
    }
  }
}
    fragment PastAttemptFields on PastAttempt {
  runId
  planVersion
  logicalAttemptId
  engineAttemptId
  status
  statusRaw
  startedAt
  completedAt
  durationMs
  lastTryMs
  errorCode
  errorMessage
}`) as unknown as TypedDocumentString<PlanStepQuery, PlanStepQueryVariables>;
export const ComparePlansDocument = new TypedDocumentString(`
    query ComparePlans($a: String!, $b: String!) {
  compareRuns(a: $a, b: $b) {
    plan {
      added
      removed
      changed
      parts {
        ...PlanPartFields
      }
      steps {
        stepId
        change
        parts {
          ...PlanPartFields
        }
      }
    }
  }
}
    fragment PlanPartFields on PlanPartDiff {
  path
  from
  to
}`) as unknown as TypedDocumentString<ComparePlansQuery, ComparePlansQueryVariables>;
export const CompareRunsDocument = new TypedDocumentString(`
    query CompareRuns($a: String!, $b: String!) {
  compareRuns(a: $a, b: $b) {
    a {
      ...ComparedRunFields
    }
    b {
      ...ComparedRunFields
    }
    aWaitedMs
    bWaitedMs
    params {
      ...PlanPartFields
    }
    steps {
      stepId
      name
      changes
      a {
        ...ComparedStepFields
      }
      b {
        ...ComparedStepFields
      }
    }
  }
}
    fragment PlanPartFields on PlanPartDiff {
  path
  from
  to
}
fragment ComparedRunFields on Run {
  runId
  parentRunId
  projectId
  environmentId
  status
  statusRaw
  substatus
  createdAt
  startedAt
  completedAt
  totalDurationMs
  triggeredBy
  plan {
    planId
    planVersion
  }
}
fragment ComparedStepFields on ComparedStep {
  status
  statusRaw
  durationMs
  attempts
  errorCode
  keptFrom
  hasRun
}`) as unknown as TypedDocumentString<CompareRunsQuery, CompareRunsQueryVariables>;
export const StepNameDocument = new TypedDocumentString(`
    query StepName($runId: String!, $stepId: String!) {
  run(runId: $runId) {
    step(stepId: $stepId) {
      name
    }
  }
}
    `) as unknown as TypedDocumentString<StepNameQuery, StepNameQueryVariables>;
export const PalettePlansDocument = new TypedDocumentString(`
    query PalettePlans($text: String!, $first: Int!) {
  plans(text: $text, first: $first) {
    edges {
      node {
        planId
        projectId
        environmentId
        runs {
          runId
        }
      }
    }
  }
}
    `) as unknown as TypedDocumentString<PalettePlansQuery, PalettePlansQueryVariables>;
export const RerunsDocument = new TypedDocumentString(`
    query Reruns($projectId: String!, $environmentId: String!, $planId: String!, $createdFrom: Time!, $first: Int!) {
  runs(
    first: $first
    orderBy: CREATED_ASC
    filter: {projectId: $projectId, environmentId: $environmentId, planId: $planId, createdFrom: $createdFrom}
  ) {
    edges {
      node {
        runId
        parentRunId
        status
        statusRaw
        substatus
      }
    }
  }
}
    `) as unknown as TypedDocumentString<RerunsQuery, RerunsQueryVariables>;
export const RetentionDocument = new TypedDocumentString(`
    query Retention {
  retentionPolicy {
    ...RetentionFields
    lastPass {
      startedAt
      endedAt
      archived
      archivedBytes
      deletedEvents
      deleted
      removedObjects
      deletedRows
      cutRecords
      held
      waiting
      failed
      error
      overdueSince
    }
  }
}
    fragment RetentionFields on RetentionPolicy {
  version
  own
  actor
  reason
  at
  days {
    archiveRuns
    deleteArchives
    stepLogs
    receipts
    deadLetters
    alerts
    audit
    artifacts {
      kind
      days
    }
  }
}`) as unknown as TypedDocumentString<RetentionQuery, RetentionQueryVariables>;
export const RetentionHistoryDocument = new TypedDocumentString(`
    query RetentionHistory($first: Int!, $after: String) {
  retentionHistory(first: $first, after: $after) {
    edges {
      node {
        ...RetentionFields
        changed
      }
    }
    pageInfo {
      ...PageFields
    }
  }
}
    fragment PageFields on PageInfo {
  endCursor
  hasNextPage
}
fragment RetentionFields on RetentionPolicy {
  version
  own
  actor
  reason
  at
  days {
    archiveRuns
    deleteArchives
    stepLogs
    receipts
    deadLetters
    alerts
    audit
    artifacts {
      kind
      days
    }
  }
}`) as unknown as TypedDocumentString<RetentionHistoryQuery, RetentionHistoryQueryVariables>;
export const PreviewRetentionDocument = new TypedDocumentString(`
    query PreviewRetention($policy: RetentionDaysInput!) {
  preview: previewRetention(policy: $policy) {
    changed
    warnings
  }
}
    `) as unknown as TypedDocumentString<PreviewRetentionQuery, PreviewRetentionQueryVariables>;
export const SetRetentionDocument = new TypedDocumentString(`
    mutation SetRetention($input: SetRetentionInput!) {
  setRetention(input: $input) {
    change {
      ...ChangeFields
    }
  }
}
    fragment ChangeFields on ChangeReceipt {
  action
  requestId
  actor
  at
  version
  versionBefore
}`) as unknown as TypedDocumentString<SetRetentionMutation, SetRetentionMutationVariables>;
export const LegalHoldsDocument = new TypedDocumentString(`
    query LegalHolds($open: Boolean!, $first: Int!, $after: String) {
  legalHolds(open: $open, first: $first, after: $after) {
    edges {
      node {
        id
        kind
        subject
        reason
        placedBy
        placedAt
        liftedBy
        liftedAt
        liftedFor
      }
    }
    pageInfo {
      ...PageFields
    }
  }
}
    fragment PageFields on PageInfo {
  endCursor
  hasNextPage
}`) as unknown as TypedDocumentString<LegalHoldsQuery, LegalHoldsQueryVariables>;
export const PlaceHoldDocument = new TypedDocumentString(`
    mutation PlaceHold($input: PlaceHoldInput!) {
  placeHold(input: $input) {
    change {
      ...ChangeFields
    }
  }
}
    fragment ChangeFields on ChangeReceipt {
  action
  requestId
  actor
  at
  version
  versionBefore
}`) as unknown as TypedDocumentString<PlaceHoldMutation, PlaceHoldMutationVariables>;
export const LiftHoldDocument = new TypedDocumentString(`
    mutation LiftHold($input: LiftHoldInput!) {
  liftHold(input: $input) {
    change {
      ...ChangeFields
    }
  }
}
    fragment ChangeFields on ChangeReceipt {
  action
  requestId
  actor
  at
  version
  versionBefore
}`) as unknown as TypedDocumentString<LiftHoldMutation, LiftHoldMutationVariables>;
export const RunArchiveDocument = new TypedDocumentString(`
    query RunArchive($runId: String!) {
  run(runId: $runId) {
    archive {
      at
      events
    }
  }
}
    `) as unknown as TypedDocumentString<RunArchiveQuery, RunArchiveQueryVariables>;
export const SecretReadsDocument = new TypedDocumentString(`
    query SecretReads($filter: SecretAccessFilter, $first: Int, $after: String) {
  secretAccess(filter: $filter, first: $first, after: $after) {
    edges {
      cursor
      node {
        ...SecretAccessFields
      }
    }
    pageInfo {
      hasNextPage
      endCursor
    }
  }
}
    fragment SecretAccessFields on SecretAccess {
  at
  runId
  stepId
  logicalAttemptId
  engineAttemptId
  account
  worker
  provider
  key
  version
  answeredVersion
  as
  cached
  code
}`) as unknown as TypedDocumentString<SecretReadsQuery, SecretReadsQueryVariables>;
export const WorkersDocument = new TypedDocumentString(`
    query Workers {
  workers {
    ...WorkerFields
  }
}
    fragment WorkerFields on WorkerReport {
  account
  worker
  queue
  runtime
  missing {
    part
    reason
  }
  ok
  problem
  reportedAt
  live
  overdue
  version
  slots
  inUse
  steps {
    tenantId
    runId
    stepId
    since
  }
  drained
  drain {
    actor
    reason
    at
  }
  last
}`) as unknown as TypedDocumentString<WorkersQuery, WorkersQueryVariables>;
export const DrainWorkerDocument = new TypedDocumentString(`
    mutation DrainWorker($input: DrainWorkerInput!) {
  drainWorker(input: $input) {
    workers {
      ...WorkerFields
    }
    change {
      ...ChangeFields
    }
  }
}
    fragment ChangeFields on ChangeReceipt {
  action
  requestId
  actor
  at
  version
  versionBefore
}
fragment WorkerFields on WorkerReport {
  account
  worker
  queue
  runtime
  missing {
    part
    reason
  }
  ok
  problem
  reportedAt
  live
  overdue
  version
  slots
  inUse
  steps {
    tenantId
    runId
    stepId
    since
  }
  drained
  drain {
    actor
    reason
    at
  }
  last
}`) as unknown as TypedDocumentString<DrainWorkerMutation, DrainWorkerMutationVariables>;
export const WorkerDrainsDocument = new TypedDocumentString(`
    query WorkerDrains {
  workers {
    account
    worker
    queue
    ok
    live
    overdue
    drain {
      actor
      reason
    }
  }
}
    `) as unknown as TypedDocumentString<WorkerDrainsQuery, WorkerDrainsQueryVariables>;