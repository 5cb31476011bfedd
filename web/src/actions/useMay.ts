import type { Action } from "../api/gen/graphql";
import { m } from "../messages";
import { useViewer } from "./context";

/** Why the viewer may do this nowhere, in words; null when they may somewhere, and the server judges the rest. */
export function useMay(action: Action): string | null {
  const { actions } = useViewer();
  return actions.has(action) ? null : m.denied.notYours(action);
}
