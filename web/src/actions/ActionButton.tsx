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
  const { act } = useRunActions();
  const { reason } = useRefusal(action, stepId ?? null);
  return (
    <Button kind={kind} refusal={reason} shortcut={shortcut} onClick={() => act(action, stepId ?? null)}>
      {m.action[action]}…
    </Button>
  );
}
