// Every component in each of its named states; the tests walk them.
import type { ReactNode } from "react";
import { ActionMenu } from "../actions/ActionMenu";
import { RunActionsContext } from "../actions/context";
import { ConfirmDialog } from "../actions/ConfirmDialog";
import { EMPTY_DRAFT } from "../actions/draft";
import { newIntent, type Sendable } from "../actions/intent";
import { ReceiptStages, ReceiptTitle } from "../receipts/Receipt";
import type { AvailableActions } from "../actions/useAvailability";
import { ApiError } from "../api/error";
import type { Availability } from "../api/model";
import { CauseCard } from "../run/CauseCard";
import { RunHeaderView } from "../run/RunHeader";
import { RunTable } from "../runlist/RunTable";
import { ServiceNotice } from "../shell/ServiceBanner";
import { SignIn } from "../session/SignInPage";
import { StepPanel } from "../step/StepPanel";
import { StepsGrid } from "../steps/StepsGrid";
import { SyncBanner, SyncChip } from "../freshness/Sync";
import { m } from "../messages";
import { dlq as dlqWords } from "../messages/deadLetters";
import { logWords } from "../messages/log";
import { RunContext } from "../runstate/context";
import type { StepQuery } from "../steps/selection";
import { type Notice as Service, notices } from "../shell/service";
import type { RunStore, Verdict } from "../runstate/store";
import type { StepTab } from "../address/views";
import { ReasonDialog } from "../forms/ReasonDialog";
import { Button } from "../ui/Button";
import { runLook, stepLook } from "../status/look";
import { Notice, Skeleton } from "../ui/Page";
import { Problem } from "../page/Problem";
import { StatusBadge, StatusIcon } from "../ui/Status";
import { Table } from "../ui/Table";
import { bulks } from "./bulk";
import { available, header, NOW, RECEIPTS, REFUSED, RUN, RUNS, SEQ, STEPS, store } from "../testing/fixtures";
import { healths } from "./health";
import { inbox } from "./inbox";
import { plans } from "./plans";
import { starts } from "./start";
import type { State } from "./state";

const nothing = (): void => {};

const ACTIONS: AvailableActions = {
  basedOn: SEQ,
  run: new Map(
    [available("PAUSE", { strength: "REVERSIBLE" }), REFUSED, available("RESUME")].map((entry) => [
      entry.action,
      entry,
    ]),
  ),
  step: () => new Map([["RETRY_STEP", available("RETRY_STEP")] as const]),
  queue: null,
  approval: null,
  causeLine: 412,
  lastGreen: {
    runId: "01KAHW3V5Z8N2M4Q6R7S9T0V61C2",
    createdAt: "2026-11-20T03:00:00Z",
    completedAt: "2026-11-20T03:31:00Z",
  },
  tasks: [],
  task: () => undefined,
};

function within(run: RunStore, children: ReactNode, actions: AvailableActions = ACTIONS): ReactNode {
  return (
    <RunContext value={run}>
      <RunActionsContext value={{ actions, act: nothing, menu: nothing }}>{children}</RunActionsContext>
    </RunContext>
  );
}

function verdict(over: Partial<Verdict>): Verdict {
  return {
    state: "LIVE",
    reason: null,
    since: NOW - 12_000,
    asOf: NOW - 12_000,
    lagMs: 140,
    seq: 812,
    headSeq: 4120,
    ...over,
  };
}

const SYNC = {
  loading: verdict({ state: "LOADING", asOf: 0, seq: 0 }),
  live: verdict({ asOf: NOW }),
  "live-without-bus": verdict({ asOf: NOW, reason: "BUS_DEGRADED" }),
  verifying: verdict({ state: "VERIFYING", reason: "RECONNECTED" }),
  resyncing: verdict({ state: "RESYNCING", reason: "GAP" }),
  "stale-gap": verdict({ state: "STALE", reason: "GAP" }),
  "stale-store": verdict({ state: "STALE", reason: "STORE_DOWN" }),
  "stale-behind": verdict({ state: "STALE", reason: "BEHIND" }),
  offline: verdict({ state: "OFFLINE", reason: "CONNECTION_LOST" }),
} satisfies Record<string, Verdict>;

const ERRORS = {
  "error-server": new ApiError("The store did not answer in time.", {
    code: "STORE_UNAVAILABLE",
    correlationId: "c0ffee12-34",
    retryAfterMs: 4_000,
  }),
  "error-network": new ApiError("dvt did not answer.", { code: "NETWORK" }),
  forbidden: new ApiError("You may not read the audit of acme.", {
    code: "FORBIDDEN",
    denial: { whoCould: ["ana", "@data-eng"] },
  }),
} satisfies Record<string, ApiError>;

const SERVICE: Service[] = [
  {
    mode: "READ_ONLY",
    modeReason: "store is moved",
    modeSince: "2026-11-21T02:00:00Z",
    frozen: true,
    frozenReason: "the invoice is open",
    frozenSince: null,
    degraded: true,
    retryAfterMs: 4_000,
  } as const,
].flatMap(notices);

function statuses(): State[] {
  return [
    {
      name: "statuses-runs",
      show: () => Object.entries(RUNS).map(([name, run]) => <StatusBadge key={name} look={runLook(run)} />),
    },
    {
      name: "statuses-large",
      show: () => Object.entries(RUNS).map(([name, run]) => <StatusBadge key={name} look={runLook(run)} large />),
    },
    {
      name: "statuses-steps",
      show: () => STEPS.map((step) => <StatusBadge key={step.stepId} look={stepLook(step)} />),
    },
    {
      name: "glyphs",
      show: () =>
        [
          ...new Map(
            [...Object.values(RUNS).map(runLook), ...STEPS.map(stepLook)].map((look) => [look.tone, look]),
          ).values(),
        ].map((look) => (
          <span key={look.tone} data-glyph={look.tone}>
            <StatusIcon look={look} />
          </span>
        )),
    },
  ];
}

function truth(): State[] {
  return Object.entries(SYNC).map(([name, shown]) => ({
    name: `sync-${name}`,
    show: () => (
      <>
        <SyncChip verdict={shown} now={NOW} />
        <SyncBanner verdict={shown} now={NOW} />
      </>
    ),
  }));
}

function runs(): State[] {
  const heads = Object.entries(RUNS).map(([name, run]) => ({
    name: `run-${name}`,
    show: () => within(store(run), <RunHeaderView />),
  }));
  const stale = store(header(), { sync: "STALE", reason: "STORE_DOWN", asOf: NOW - 12_000 });
  return [
    ...heads,
    { name: "run-stale", show: () => within(stale, <RunHeaderView />) },
    {
      name: "run-table",
      show: () => (
        <RunTable
          rows={Object.entries(RUNS).map(([name, run], i) => ({
            run: { ...run, runId: `${run.runId}${name}` },
            left: i === 3,
          }))}
          now={NOW}
          frozen={false}
          selecting={{ selected: new Set([`${RUN}completed`]), turn: nothing, turnAll: nothing }}
          menu={() => []}
          columns={["steps", "started", "took", "tags", "cause"]}
          marks={
            new Map(
              Object.keys(RUNS).map((name, i) => [
                `${RUN}${name}`,
                { tags: ["late", "team:data", "month-end"].slice(0, i), notes: i % 2 },
              ]),
            )
          }
          onTag={nothing}
        />
      ),
    },
    { name: "cause", show: () => within(store(header()), <CauseCard />) },
    {
      name: "steps",
      show: () =>
        within(
          store(header()),
          <StepsGrid narrow={false} chosen="stg_orders" choose={nothing} query={EVERY_STEP} setQuery={nothing} />,
        ),
    },
    {
      name: "steps-none",
      show: () =>
        within(
          store(header(), {}, []),
          <StepsGrid narrow={false} chosen={null} choose={nothing} query={EVERY_STEP} setQuery={nothing} />,
        ),
    },
  ];
}

const EVERY_STEP: StepQuery = { show: [], find: "", group: null, sort: "failed" };

function panel(stepId: string, tab: StepTab): ReactNode {
  return within(
    store(header()),
    <StepPanel
      runId={RUN}
      stepId={stepId}
      place={{ attempt: null, tab, line: null, q: "", nodes: [], sql: null, full: false }}
      open={nothing}
      close={nothing}
    />,
  );
}

function panels(): State[] {
  return [
    { name: "step-failed", show: () => panel("stg_orders", "error"), alone: true },
    { name: "step-models", show: () => panel("stg_orders", "models"), alone: true },
    { name: "step-inputs", show: () => panel("stg_orders", "inputs"), alone: true },
    { name: "step-output", show: () => panel("src_orders", "output"), alone: true },
    { name: "step-timing", show: () => panel("stg_orders", "timing"), alone: true },
    { name: "step-waiting", show: () => panel("orders", "log"), alone: true },
    { name: "step-gone", show: () => panel("no_such_step", "log"), alone: true },
  ];
}

function receipts(): State[] {
  return Object.entries(RECEIPTS).map(([name, signal]) => ({
    name: `receipt-${name}`,
    show: () => (
      <>
        <ReceiptTitle signal={signal} />
        <ReceiptStages signal={signal} slow={name === "delivered"} />
      </>
    ),
  }));
}

function confirm(name: string, availability: Availability & { action: Sendable }, stepId: string | null = null): State {
  const kept = { intent: newIntent(availability.action, RUN, stepId, 2), draft: EMPTY_DRAFT, sent: null };
  const of = new Map([[availability.action, availability] as const]);
  return {
    name: `confirm-${name}`,
    alone: true,
    show: () =>
      within(store(header()), <ConfirmDialog kept={kept} onClose={nothing} onDone={nothing} />, {
        ...ACTIONS,
        run: of,
        step: () => of,
      }),
  };
}

function dialogs(): State[] {
  return [
    confirm("reversible", available("PAUSE", { strength: "REVERSIBLE" })),
    confirm("normal", available("RETRY_STEP", { reasonRequired: true }), "stg_orders"),
    confirm("force", available("RETRY_STEP", { outcome: "REFUSED", code: "RETRY_POLICY_DENIED" }), "stg_orders"),
    confirm("strong", available("CANCEL", { strength: "STRONG" })),
    confirm("override", available("INJECT_OVERRIDE", { strength: "STRONG", reasonRequired: true }), "stg_orders"),
    confirm("stop", available("EMERGENCY_STOP", { strength: "STRONG", reasonRequired: true })),
    confirm(
      "refused",
      available("RESUME", {
        outcome: "REFUSED",
        code: "FORBIDDEN",
        reason: "You need the Operator role on shop / prod to resume a run.",
      }),
    ),
    {
      name: "menu",
      alone: true,
      show: () => within(store(header()), <ActionMenu stepId="stg_orders" onClose={nothing} />),
    },
    {
      name: "ask",
      alone: true,
      show: () => (
        <ReasonDialog
          title={dlqWords.redriveAll}
          verb={dlqWords.redrive}
          word={dlqWords.word}
          reason="required"
          danger
          act={() => Promise.reject(ERRORS["error-server"])}
          onClose={nothing}
        >
          <p>{dlqWords.harmless}</p>
        </ReasonDialog>
      ),
    },
  ];
}

function pages(): State[] {
  return [
    ...Object.entries(ERRORS).map(([name, error]) => ({ name, show: () => <Problem error={error} retry={nothing} /> })),
    { name: "loading", show: () => <Skeleton rows={4} label={m.sync.LOADING} /> },
    { name: "empty", show: () => <Notice title={m.page.nothing}>{dlqWords.empty}</Notice> },
    { name: "not-found", show: () => <Notice title={m.run.gone}>{m.run.goneHint(RUN, "vic @ globex")}</Notice> },
    { name: "signed-out", show: () => <SignIn error={new ApiError("", { code: "TOKEN_EXPIRED" })} />, alone: true },
    { name: "service", show: () => SERVICE.map((notice) => <ServiceNotice key={notice.kind} notice={notice} />) },
    {
      name: "table",
      show: () => (
        <Table
          label="Table"
          columns={[
            { head: dlqWords.run, main: true, cell: (row: readonly string[]) => row[0] },
            { head: dlqWords.tries, cell: (row: readonly string[]) => row[1] },
            { head: dlqWords.cause, text: true, cell: (row: readonly string[]) => row[2] },
          ]}
          rows={[
            ["7f3a", "10", "410 Gone"],
            ["61c2", "1", "connection refused ".repeat(12)],
            ["c01d", "2", "an_error_without_any_place_to_break_".repeat(6)],
          ]}
          rowKey={(row) => row[0] ?? ""}
        />
      ),
    },
  ];
}

function controls(): State[] {
  return [
    {
      name: "buttons",
      show: () => (
        <>
          <Button>{m.action.PAUSE}</Button>
          <Button kind="primary">{m.action.APPROVE}</Button>
          <Button kind="danger">{m.action.CANCEL}</Button>
          <Button kind="quiet">{m.run.copy}</Button>
          <Button pressed>{logWords.log.follow}</Button>
          <Button refusal={m.denied.offline}>{m.action.RESUME}</Button>
        </>
      ),
    },
  ];
}

export const STATES: readonly State[] = [
  ...statuses(),
  ...controls(),
  ...truth(),
  ...runs(),
  ...panels(),
  ...receipts(),
  ...dialogs(),
  ...bulks(),
  ...starts(),
  ...inbox(),
  ...plans(),
  ...healths(),
  ...pages(),
];
