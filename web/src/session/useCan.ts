import type { Action } from "../api/gen/graphql";
import { m } from "../messages";
import { useViewer } from "./viewer";

/** Why the viewer may do this nowhere, in words; null when they may somewhere, and the server judges the rest. */
export function useCan(action: Action): string | null {
  const { actions } = useViewer();
  return actions.has(action) ? null : m.denied.notYours(action);
}
