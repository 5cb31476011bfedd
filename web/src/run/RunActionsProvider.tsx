import { useLocation, useNavigate } from "@tanstack/react-router";
import { type ReactNode, Suspense, useEffect, useMemo, useState } from "react";
import { type RunActions, RunActionsContext } from "../actions/context";
import type { Kept } from "../actions/intents";
import type { Sendable } from "../actions/intent";
import { useAvailability } from "../actions/useAvailability";
import { intents } from "../actions/useSend";
import { useHeader, useRunState, useRunStore } from "../runstate/context";
import { ended } from "../status/look";
import { lazyPart } from "../ui/lazyPart";

const ActionMenu = lazyPart(() => import("../actions/ActionMenu").then((part) => part.ActionMenu));
const CompareMenu = lazyPart(() => import("../compare/CompareMenu").then((part) => part.CompareMenu));
const ConfirmDialog = lazyPart(() => import("../actions/ConfirmDialog").then((part) => part.ConfirmDialog));

interface RunActionsProviderProps {
  runId: string;
  chosen: string | null;
  children: ReactNode;
}

/** Provides the actions on a run, and holds their one confirmation dialog, which outlives the button that opened it. */
export function RunActionsProvider({ runId, chosen, children }: RunActionsProviderProps) {
  const store = useRunStore();
  const navigate = useNavigate();
  const [kept, setKept] = useState<Kept | null>(null);
  const [menu, setMenu] = useState(false);
  const header = useHeader();
  const actions = useAvailability(runId, kept?.intent.stepId ?? chosen);
  const acts: RunActions = useMemo(
    () => ({
      actions,
      act: (action: Sendable, stepId: string | null) => {
        const attempt = stepId === null ? null : (store.step(stepId)?.logicalAttemptId ?? null);
        setKept(intents.form(action, runId, stepId, attempt));
      },
      menu: () => setMenu(true),
    }),
    [actions, runId, store],
  );
  useAskedAction((action) => {
    const failing = action === "RETRY_STEP" ? (store.header()?.rootCause?.stepId ?? null) : null;
    if (action !== "RETRY_STEP" || failing !== null) acts.act(action, failing);
  });
  return (
    <RunActionsContext value={acts}>
      {children}
      <Suspense>
        {menu && (
          <ActionMenu
            stepId={chosen ?? (header && !ended(header) ? (header.rootCause?.stepId ?? null) : null)}
            onClose={() => setMenu(false)}
            more={
              header && (
                <CompareMenu run={header} greenId={actions?.lastGreen?.runId ?? null} onGo={() => setMenu(false)} />
              )
            }
          />
        )}
        {kept && (
          <ConfirmDialog
            key={kept.intent.signalId}
            kept={kept}
            onClose={() => setKept(null)}
            onDone={({ newRunId }) => {
              setKept(null);
              if (newRunId !== null) void navigate({ to: "/runs/$runId", params: { runId: newRunId }, search: {} });
            }}
          />
        )}
      </Suspense>
    </RunActionsContext>
  );
}

/**
 * Opens the dialog of the action that the reader chose in a list of runs, once the run with its steps is read. The
 * history forgets it, so that a reload does not open it again.
 */
function useAskedAction(open: (action: Sendable) => void): void {
  const navigate = useNavigate();
  const asked = useLocation({ select: ({ state }) => state.act });
  const ready = useRunState((store) => store.whole());
  useEffect(() => {
    if (asked === undefined || !ready) return;
    open(asked);
    void navigate({ to: ".", search: true, replace: true, state: {} });
    // Once for what was asked.
    // oxlint-disable-next-line react/exhaustive-deps
  }, [asked, ready]);
}
