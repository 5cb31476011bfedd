import { getRouteApi } from "@tanstack/react-router";
import { Suspense, useCallback, useEffect, useState } from "react";
import { receipts } from "../receipts/context";
import { DoneLine } from "../receipts/DoneLine";
import { ReceiptLine } from "../receipts/ReceiptLine";
import { follow } from "../api/follow";
import { RunSignalsDocument, SignalUpdatesDocument } from "../api/gen/graphql";
import { type RunHeader, toSignal } from "../api/model";
import type { ApiError } from "../api/error";
import { request } from "../api/request";
import { CauseCard } from "../run/CauseCard";
import { PanelHandle, usePanelShare } from "../step/PanelHandle";
import { RunActionsProvider } from "../run/RunActionsProvider";
import { RunFacts, RunHeaderView, RunTruthBanner } from "../run/RunHeader";
import { RunKeys } from "../run/RunKeys";
import { RunMoment } from "../history/RunMoment";
import { RunRefused } from "../run/RunRefused";
import { RunTabs } from "../run/RunTabs";
import { RunViews } from "../run/RunViews";
import { GRAPH_STEPS } from "../status/stepGroup";
import type { StepMove } from "../step/stepPlace";
import { StepPanel } from "../step/StepPanel";
import { TimeMachine } from "../history/TimeMachine";
import { m } from "../messages";
import { useHeader, useRunState } from "../runstate/context";
import { type OpenRun, openRun } from "../runstate/open";
import type { RunStore } from "../runstate/store";
import { RESET_STEP_PARAMS } from "../address/views";
import { useDocumentStatus } from "../ui/documentStatus";
import { Skeleton } from "../ui/Page";
import { RetriesProvider, useRunLook } from "../waits/retries";
import css from "./RunPage.module.css";

const route = getRouteApi("/runs/$runId");
const NO_NODES: readonly string[] = [];

export function RunPage() {
  const { runId } = route.useParams();
  const { at } = route.useSearch();
  const [open, setOpen] = useState<OpenRun | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [attempt, setAttempt] = useState(0);
  useEffect(() => {
    setError(null);
    const run = openRun(runId, setError);
    setOpen(run);
    return () => {
      run.close();
      setOpen(null);
    };
  }, [runId, attempt]);
  useRunReceipts(runId);
  if (error) return <RunRefused runId={runId} error={error} retry={() => setAttempt(attempt + 1)} />;
  if (!open) return <Skeleton rows={8} label={m.sync.LOADING} />;
  return (
    <RunMoment runId={runId} live={open.store} at={at ?? null}>
      <RunView runId={runId} live={open.store} />
    </RunMoment>
  );
}

/** Receipts of this run, from its beginning and as they move. */
function useRunReceipts(runId: string): void {
  useEffect(() => {
    const load = (): void => {
      request(RunSignalsDocument, { runId })
        .then(({ run }) => run && receipts.receive(...run.signals.edges.map((edge) => toSignal(edge.node))))
        .catch(() => {});
    };
    load();
    const stream = follow(
      SignalUpdatesDocument,
      { runId },
      {
        next: ({ signalUpdates }) => receipts.receive(toSignal(signalUpdates)),
        refused: () => {},
        // Receipts that moved while the stream was down come by query.
        broken: load,
      },
    );
    return stream.close;
  }, [runId]);
}

function RunView({ runId, live }: { runId: string; live: RunStore }) {
  const known = useRunState((store) => store.header() !== null);
  const whole = useRunState((store) => store.whole());
  const state = useRunState((store) => store.verdict().state);
  const frozen = useRunState((store) => store.frozen());
  // A picture of thousands of cells needs the height that the whole card takes; its legend says what the failure holds.
  const large = useRunState((store) => (store.header()?.stepCounts.total ?? 0) > GRAPH_STEPS);
  const restoredTo = useRunState((store) => store.restoredTo());
  const {
    step: chosen = null,
    view = "graph",
    focus,
    whole: all,
    attempt = null,
    tab,
    line = null,
    q = "",
    nodes = NO_NODES,
    sql = null,
    full,
    at = null,
    diff = null,
  } = route.useSearch();
  const navigate = route.useNavigate();
  const [share, setShare] = usePanelShare();
  const choose = useCallback(
    (step: string) => void navigate({ search: (old) => ({ ...old, ...RESET_STEP_PARAMS, step }) }),
    [navigate],
  );
  const open = useCallback(
    (to: StepMove) => void navigate({ search: (old) => ({ ...old, ...to }), replace: true }),
    [navigate],
  );
  const close = useCallback(
    () => void navigate({ search: (old) => ({ ...old, ...RESET_STEP_PARAMS, step: undefined, tab: undefined }) }),
    [navigate],
  );
  if (!known) {
    return (
      <>
        <RunTruthBanner />
        <Skeleton rows={8} label={m.sync.LOADING} />
      </>
    );
  }
  return (
    <RetriesProvider>
      <RunActionsProvider runId={runId} chosen={chosen}>
        <TabStatus />
        <RunKeys chosen={chosen} close={close} />
        <div data-verdict={state} className={css.page}>
          <RunTruthBanner />
          {restoredTo !== null && (
            <p className={css.restored} role="status">
              {m.banner.restored(restoredTo)}
            </p>
          )}
          <div className={css.top}>
            <RunHeaderView />
            <ReceiptLine runId={runId} />
            <DoneLine topic={runId} />
          </div>
          <div
            ref={(split) => split?.style.setProperty("--panel", `${share}%`)}
            className={css.split}
            data-open={chosen !== null || undefined}
          >
            <div className={css.left}>
              <RunFacts />
              <CauseCard
                folded={chosen !== null}
                brief={chosen === null && (view !== "graph" || (large && !focus && !all))}
              />
              <RunTabs runId={runId} view={view} />
              <div className={css.main} data-stale={frozen || undefined}>
                <Suspense fallback={<Skeleton rows={6} label={m.sync.LOADING} />}>
                  {whole ? (
                    <RunViews runId={runId} chosen={chosen} choose={choose} />
                  ) : (
                    <Skeleton rows={6} label={m.sync.LOADING} />
                  )}
                </Suspense>
              </div>
              <TimeMachine runId={runId} live={live} at={at} diff={diff} />
            </div>
            {chosen !== null && <PanelHandle share={share} change={setShare} />}
            {chosen !== null && whole && (
              <div className={css.panel}>
                <StepPanel
                  runId={runId}
                  stepId={chosen}
                  place={{ attempt, tab: tab ?? "log", line, q, nodes, sql, full: full === "yes" }}
                  open={open}
                  close={close}
                />
              </div>
            )}
          </div>
        </div>
      </RunActionsProvider>
    </RetriesProvider>
  );
}

/** Shows the status of the run in the title and the icon of the browser's tab. */
function TabStatus() {
  const header = useHeader();
  return header && <Titled header={header} />;
}

function Titled({ header }: { header: RunHeader }) {
  const look = useRunLook(header);
  useDocumentStatus(header.plan.planId, look.tone, look.word);
  return null;
}
