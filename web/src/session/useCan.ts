import type { Action } from "../api/gen/graphql";
import { m } from "../messages";
import { useViewer } from "./viewer";

/** Says why the viewer may do this nowhere; null when they may do it somewhere, and the server decides where. */
export function useCan(action: Action): string | null {
  const { actions } = useViewer();
  return actions.has(action) ? null : m.denied.notYours(action);
}
