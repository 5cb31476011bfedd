import { createContext, use } from "react";
import type { Sendable } from "./intent";
import type { AvailableActions } from "./useAvailability";

export interface RunActions {
  /** The actions that the viewer may send now; null until the server has answered. */
  actions: AvailableActions | null;
  /** Opens the confirmation of an action on the run or on one of its steps. It never sends anything itself. */
  act: (action: Sendable, stepId: string | null) => void;
  /** Opens the list of all actions. */
  menu: () => void;
}

export const RunActionsContext = createContext<RunActions>({ actions: null, act: () => {}, menu: () => {} });

export function useRunActions(): RunActions {
  return use(RunActionsContext);
}
