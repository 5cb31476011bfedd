import { m } from "../messages";
import { Button } from "../ui/Button";
import { useRunActions } from "./context";
import type { Sendable } from "./intent";
import { useRefusal } from "./useRefusal";

interface ActionButtonProps {
  action: Sendable;
  stepId?: string;
  kind?: "plain" | "primary" | "danger";
  /** The key that opens the same confirmation. */
  shortcut?: string | undefined;
}

/** Opens the confirmation of an action, or says why the action is refused. It never sends anything itself. */
export function ActionButton({ action, stepId, kind = "plain", shortcut }: ActionButtonProps) {
  const { act, actions } = useRunActions();
  const { reason } = useRefusal(action, stepId ?? null);
  // The dialog says why an approval is refused, and takes a rejection.
  const open = action === "APPROVE" && actions?.mayReject === true;
  return (
    <Button kind={kind} refusal={open ? null : reason} shortcut={shortcut} onClick={() => act(action, stepId ?? null)}>
      {m.action[action]}…
    </Button>
  );
}
