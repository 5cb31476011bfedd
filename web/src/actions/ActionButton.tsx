import { useState } from "react";
import { useRunStore, useHeader, useVerdict } from "../runs/context";
import { m } from "../messages";
import { Button } from "../ui/Button";
import { useTick } from "../ui/Time";
import { ConfirmDialog } from "./ConfirmDialog";
import { useReceipts, useViewer } from "./context";
import { type Intent, newIntent, refusal, type Sendable } from "./intent";
import type { Actions } from "./useActions";

interface ActionButtonProps {
  action: Sendable;
  actions: Actions | null;
  stepId?: string;
  kind?: "plain" | "primary" | "danger";
}

/** A button that is always there: it opens the confirmation, or says why it cannot. It never acts by itself. */
export function ActionButton({ action, actions, stepId, kind = "plain" }: ActionButtonProps) {
  const store = useRunStore();
  const header = useHeader();
  const verdict = useVerdict();
  const viewer = useViewer();
  const [intent, setIntent] = useState<Intent | null>(null);
  useTick(1_000, store.frozen());
  const receipt = useReceipts().find(
    (signal) =>
      signal.runId === header?.runId &&
      signal.actor === viewer.principal &&
      signal.type === action &&
      (stepId === undefined || signal.stepId === stepId),
  );
  if (!header) return null;
  const availability = (stepId === undefined ? actions?.run : actions?.step(stepId))?.get(action);
  const ageMs = Math.max(0, store.clock.now() - verdict.asOf);
  const reason = refusal({ action, availability, verdict, ageMs, receipt });
  const attempt = stepId === undefined ? null : (store.step(stepId)?.logicalAttemptId ?? null);
  return (
    <>
      <Button kind={kind} refusal={reason} onClick={() => setIntent(newIntent(action, header.runId, stepId ?? null, attempt))}>
        {m.action[action]}…
      </Button>
      {intent && availability && actions && (
        <ConfirmDialog
          intent={intent}
          availability={availability}
          basedOn={actions.basedOn}
          refusal={reason}
          onClose={() => setIntent(null)}
        />
      )}
    </>
  );
}
