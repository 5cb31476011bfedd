import { getRouteApi, Link } from "@tanstack/react-router";
import { useCallback, useEffect, useState, useSyncExternalStore } from "react";
import { receipts, useReceipts, useViewer } from "../actions/context";
import { type Actions, useActions } from "../actions/useActions";
import { follow } from "../api/follow";
import { RunSignalsDocument, SignalUpdatesDocument } from "../api/gen/graphql";
import { toSignal } from "../api/model";
import { type ApiError, request } from "../api/request";
import { CauseCard } from "../components/CauseCard";
import { RunHeaderView } from "../components/RunHeader";
import { RunViews } from "../components/RunViews";
import { StepPanel } from "../components/StepPanel";
import { SyncBanner } from "../components/Sync";
import { m } from "../messages";
import { RunContext, useHeader, useRunStore, useVerdict } from "../runs/context";
import { type OpenRun, openRun } from "../runs/open";
import { RUN_VIEWS, type StepTab } from "../runs/views";
import { Button } from "../ui/Button";
import { useDocumentStatus } from "../ui/documentStatus";
import { runLook } from "../ui/look";
import { Notice, Problem, Skeleton } from "../ui/Page";
import css from "./RunPage.module.css";

const route = getRouteApi("/runs/$runId");
const EXACTLY = { exact: true, includeSearch: true };

export function RunPage() {
  const { runId } = route.useParams();
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
  if (error) return <Refused runId={runId} error={error} retry={() => setAttempt(attempt + 1)} />;
  if (!open) return <Skeleton rows={8} label={m.sync.LOADING} />;
  return (
    <RunContext value={open.store}>
      <RunView runId={runId} />
    </RunContext>
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
    const stream = follow(SignalUpdatesDocument, { runId }, {
      next: ({ signalUpdates }) => receipts.receive(toSignal(signalUpdates)),
      refused: () => {},
      // What moved while the stream was down comes by query.
      broken: load,
    });
    return stream.close;
  }, [runId]);
}

function Refused({ runId, error, retry }: { runId: string; error: ApiError; retry: () => void }) {
  const viewer = useViewer();
  useDocumentStatus(m.run.gone);
  if (error.code === "UNAUTHENTICATED" || error.code === "TOKEN_EXPIRED") {
    return (
      <Notice title={m.run.sessionEnded}>
        <Button onClick={() => location.reload()}>{m.run.signInAgain}</Button>
      </Notice>
    );
  }
  if (error.code === "NOT_FOUND" || error.code === "FORBIDDEN") {
    return (
      <Notice title={error.code === "NOT_FOUND" ? m.run.gone : m.run.forbidden}>
        <p>{error.code === "NOT_FOUND" ? m.run.goneHint(runId, `${viewer.principal} @ ${viewer.tenantId}`) : error.message}</p>
        <Link to="/runs">{m.run.toRuns}</Link>
      </Notice>
    );
  }
  return <Problem error={error} retry={retry} />;
}

function RunView({ runId }: { runId: string }) {
  const store = useRunStore();
  const header = useHeader();
  const verdict = useVerdict();
  const restoredTo = useSyncExternalStore(store.subscribe, store.restoredTo);
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const chosen = search.step ?? null;
  const actions = useActions(runId, chosen);
  const look = header && runLook(header);
  useDocumentStatus(header ? header.plan.planId : runId, look?.tone, look?.word);

  const choose = useCallback(
    (step: string) => void navigate({ search: (old) => ({ ...old, step, attempt: undefined }), replace: false }),
    [navigate],
  );
  const openStep = useCallback(
    (step: string, tab: StepTab) => void navigate({ search: (old) => ({ ...old, step, tab, attempt: undefined }) }),
    [navigate],
  );
  const close = useCallback(
    () => void navigate({ search: (old) => ({ ...old, step: undefined, attempt: undefined, tab: undefined }) }),
    [navigate],
  );
  useEffect(() => {
    if (chosen === null) return;
    const onKey = (event: KeyboardEvent): void => {
      if (event.key === "Escape" && !document.querySelector("dialog[open]")) close();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, [chosen, close]);

  if (!header) {
    return (
      <>
        <SyncBanner verdict={verdict} now={store.clock.now()} />
        <Skeleton rows={8} label={m.sync.LOADING} />
      </>
    );
  }
  return (
    <div data-verdict={verdict.state} className={css.page}>
      <SyncBanner verdict={verdict} now={store.clock.now()} />
      {restoredTo !== null && (
        <p className={css.restored} role="status">
          {m.banner.restored(restoredTo)}
        </p>
      )}
      <RunHeaderView header={header} actions={actions} />
      <CauseCard header={header} actions={actions} openStep={openStep} />
      <Views runId={runId} />
      <div className={css.split} data-open={chosen !== null || undefined}>
        <div className={css.main} data-stale={store.frozen() || undefined}>
          <RunViews runId={runId} chosen={chosen} choose={choose} />
        </div>
        {chosen !== null && <Panel runId={runId} stepId={chosen} actions={actions} openStep={openStep} close={close} />}
      </div>
    </div>
  );
}

function Views({ runId }: { runId: string }) {
  const count = useReceipts().filter((signal) => signal.runId === runId).length;
  const names = { ...m.run.tabs, details: m.run.tabs.plan };
  return (
    <nav className={css.views} aria-label="Views of the run">
      {RUN_VIEWS.map((name) => (
        <Link key={name} from="/runs/$runId" to="." search={(old) => ({ ...old, view: name === "graph" ? undefined : name })} className={css.view} activeOptions={EXACTLY}>
          {names[name]}
          {name === "receipts" && count > 0 && <span className={css.badge}>{count}</span>}
        </Link>
      ))}
    </nav>
  );
}

interface PanelProps {
  runId: string;
  stepId: string;
  actions: Actions | null;
  openStep: (stepId: string, tab: StepTab) => void;
  close: () => void;
}

function Panel({ runId, stepId, actions, close }: PanelProps) {
  const { attempt = null, tab = "log" } = route.useSearch();
  const navigate = route.useNavigate();
  return (
    <StepPanel
      runId={runId}
      stepId={stepId}
      attempt={attempt}
      tab={tab}
      actions={actions}
      open={(to) =>
        void navigate({
          search: (old) => ({
            ...old,
            ...("attempt" in to ? { attempt: to.attempt ?? undefined } : {}),
            ...(to.tab ? { tab: to.tab } : {}),
          }),
          replace: true,
        })
      }
      close={close}
    />
  );
}
