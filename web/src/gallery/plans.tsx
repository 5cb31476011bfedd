// What needs attention, pages of plans and steps, comparisons, versions and forms of administration.
import { type ReactNode, useState } from "react";
import { PolicyForm } from "../admin/PolicyForm";
import { QuotasForm } from "../admin/QuotasForm";
import { Versions } from "../admin/Versions";
import { AttentionList } from "../attention/AttentionList";
import type { AttentionItem } from "../attention/state";
import { ComparedSteps } from "../compare/ComparedSteps";
import { ViolationList } from "../forms/Violations";
import { Bars } from "../plans/Bars";
import { runCell } from "../plans/glyphs";
import { type Grid, Legend, PlanGrid } from "../plans/PlanGrid";
import { RunCells } from "../plans/RunCells";
import { DoneText } from "../receipts/DoneLine";
import { TrayList } from "../receipts/TrayList";
import { ColumnsDialog } from "../runlist/ColumnsDialog";
import { DEFAULT_COLUMNS } from "../runlist/columns";
import { ListTools } from "../runlist/ListTools";
import { NOW, RECEIPTS, RUN, written } from "../testing/fixtures";
import type { State } from "./state";

const nothing = (): void => {};
const PLACE = { projectId: "shop", environmentId: "prod" };
const PLAN = { ...PLACE, planId: "nightly" };

const FAILED: AttentionItem = {
  ...PLAN,
  kind: "FAILED_WAITING",
  runId: RUN,
  planVersion: "1.4.2",
  stepId: "stg_orders",
  logicalAttemptId: 1,
  stepName: "Staging of orders",
  since: written(NOW - 600_000),
  deadline: written(NOW + 90_000),
  expectedBy: null,
  code: "DBT_TEST_FAILED",
  message: "Got 3 results, expected 0",
  heldSteps: 150,
  blockedSteps: 9,
  failedSteps: 1,
  approvals: null,
  approvalsRequired: null,
  actions: ["RETRY_STEP", "SKIP_STEP", "CANCEL"],
  whoCould: [],
  stuck: false,
};
const ITEMS: AttentionItem[] = [
  FAILED,
  {
    ...FAILED,
    runId: `${RUN}2`,
    deadline: written(NOW + 3_000_000),
    message: null,
    actions: [],
    whoCould: ["ana", "ben", "cem", "eva"],
  },
  {
    ...FAILED,
    kind: "APPROVAL",
    runId: `${RUN}3`,
    stepId: null,
    code: null,
    heldSteps: 0,
    approvals: 1,
    approvalsRequired: 2,
    actions: [],
  },
  {
    ...FAILED,
    kind: "LATE",
    runId: `${RUN}4`,
    stepId: null,
    code: null,
    message: null,
    deadline: null,
    heldSteps: 0,
    actions: ["PAUSE", "CANCEL"],
  },
];

const STATUSES = ["COMPLETED", "FAILED", "CANCELLED", "RUNNING", "PAUSED", "PENDING"] as const;
const PLAN_RUNS = STATUSES.map((status, i) => ({
  runId: `${RUN}${i}`,
  planVersion: "1.4.2",
  status,
  statusRaw: status,
  substatus: null,
  triggeredBy: "ana",
  createdAt: written(NOW - i * 3_600_000),
  durationMs: i === 3 ? null : 60_000 * (i + 1),
  workMs: i === 3 ? null : 60_000 * (i + 1),
}));
const CELLS = (["SUCCESS", "FAILED", "SKIPPED", "RUNNING", "PENDING"] as const).map((status) => ({
  status,
  statusRaw: status,
  durationMs: 1_000,
  attempts: 2,
  kept: false,
}));
const GRID: Grid = {
  leftOut: 3,
  runs: PLAN_RUNS,
  steps: [
    { stepId: "load", name: "Load", cells: [...CELLS, null] },
    {
      stepId: "a_step_with_a_name_that_is_much_longer_than_any_column_of_any_list_here",
      name: null,
      cells: [null, ...CELLS],
    },
  ],
};

const VERSION = { actor: "ana", reason: "the invoice is open", at: written(NOW - 900_000) };
const PAGES = {
  rows: [
    { ...VERSION, version: 2, changed: ["- maxActive: 5", "+ maxActive: 7"] },
    { ...VERSION, version: 1, changed: ["+ maxActive: 5"] },
  ],
  first: null,
  error: null,
  hasMore: true,
  loading: false,
  asOf: NOW,
  more: nothing,
  refresh: nothing,
};

const POLICY = {
  grants: [
    { principal: "ana", role: "ENGINEER", projectId: "shop", environmentId: "*" },
    { principal: "@data-eng", role: "A_LATER_ROLE", projectId: "*", environmentId: "prod" },
  ],
  approvals: [],
  breakGlass: [],
  sod: {},
};
const QUOTAS = { tenant: { maxActive: 5 }, projects: [], ttlMs: 60_000 };

/** A form of a document, which may be edited here. */
function Edited({ document: first, form: Form }: { document: unknown; form: typeof PolicyForm }): ReactNode {
  const [document, change] = useState(first);
  return <Form document={document} change={change} />;
}

const DONE = { id: "d", topic: "freeze", what: "Froze the tenant", by: "ana", at: NOW - 60_000, audit: null };

export function plans(): State[] {
  const compared = { planId: "nightly", planVersion: "1.4.2" };
  const run = (runId: string): Parameters<typeof ComparedSteps>[0]["a"] =>
    ({ ...PLAN_RUNS[0], ...compared, runId }) as never;
  return [
    { name: "attention", show: () => <AttentionList items={ITEMS} now={NOW} /> },
    { name: "attention-none", show: () => <AttentionList items={[]} now={NOW} /> },
    { name: "plan-runs", show: () => <RunCells runs={PLAN_RUNS} /> },
    {
      name: "plan-grid",
      show: () => (
        <>
          <Legend grid={GRID} />
          <PlanGrid of={PLAN} grid={GRID} />
        </>
      ),
    },
    {
      name: "plan-bars",
      show: () => (
        <Bars
          label="Duration"
          medianMs={120_000}
          bars={PLAN_RUNS.map((of) => ({
            key: of.runId,
            runId: of.runId,
            ms: of.durationMs,
            look: runCell(of),
            name: `${of.runId}, ${of.status}`,
          }))}
        />
      ),
    },
    {
      name: "compared-steps",
      show: () => (
        <ComparedSteps
          a={run("green")}
          b={run("broken")}
          steps={[
            {
              stepId: "load",
              name: "Load",
              changes: ["STATUS", "SLOWER"],
              a: {
                status: "SUCCESS",
                statusRaw: "SUCCESS",
                durationMs: 1_000,
                attempts: 1,
                errorCode: null,
                keptFrom: null,
                hasRun: true,
              },
              b: {
                status: "FAILED",
                statusRaw: "FAILED",
                durationMs: 5_000,
                attempts: 2,
                errorCode: "EXIT_STATUS",
                keptFrom: null,
                hasRun: true,
              },
            },
            { stepId: "gone", name: null, changes: ["REMOVED"], a: null, b: null },
          ]}
        />
      ),
    },
    {
      name: "versions",
      show: () => (
        <Versions
          pages={PAGES}
          current={2}
          content={({ changed }) => changed}
          refusal={null}
          putBack={nothing}
          none="None"
        />
      ),
    },
    { name: "form-policy", show: () => <Edited document={POLICY} form={PolicyForm} /> },
    { name: "form-quotas", show: () => <Edited document={QUOTAS} form={QuotasForm} /> },
    {
      name: "violations",
      show: () => (
        <ViolationList
          violations={[{ path: "steps[2].inputs.argv", code: "REQUIRED", message: "name the program" }]}
          goTo={() => true}
        />
      ),
    },
    { name: "receipt-done", show: () => <DoneText entry={DONE} /> },
    {
      name: "tray",
      show: () => (
        <TrayList
          entries={[
            ...Object.entries(RECEIPTS).map(([key, signal]) => ({
              kind: "signal" as const,
              key,
              at: NOW,
              refused: signal.decision === "REJECTED",
              signal,
            })),
            { kind: "done", key: "done", at: NOW, refused: false, done: DONE },
          ]}
        />
      ),
    },
    {
      name: "list-tools",
      show: () => <ListTools query={{ by: "me" }} change={nothing} columns={DEFAULT_COLUMNS} choose={nothing} />,
    },
    {
      name: "columns",
      alone: true,
      show: () => <ColumnsDialog shown={DEFAULT_COLUMNS} choose={nothing} close={nothing} />,
    },
  ];
}
