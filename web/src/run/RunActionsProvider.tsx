import { useNavigate } from "@tanstack/react-router";
import { type ReactNode, Suspense, useMemo, useState } from "react";
import { type RunActions, RunActionsContext } from "../actions/context";
import type { Kept } from "../actions/intents";
import type { Sendable } from "../actions/intent";
import { useAvailability } from "../actions/useAvailability";
import { intents } from "../actions/useSend";
import { useRunStore } from "../runstate/context";
import { lazyPart } from "../ui/lazyPart";

const ActionMenu = lazyPart(() => import("../actions/ActionMenu").then((part) => part.ActionMenu));
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
  return (
    <RunActionsContext value={acts}>
      {children}
      <Suspense>
        {menu && <ActionMenu stepId={chosen} onClose={() => setMenu(false)} />}
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
