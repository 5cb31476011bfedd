import { createContext, use } from "react";
import type { Sendable } from "./intent";
import type { Actions } from "./useActions";

export interface Acts {
  /** What may be done now; null until the server has said so. */
  actions: Actions | null;
  /** Opens the confirmation of an action on the run, or on one of its steps. It never acts by itself. */
  act: (action: Sendable, stepId: string | null) => void;
  /** Opens the list of all actions. */
  menu: () => void;
}

export const ActsContext = createContext<Acts>({ actions: null, act: () => {}, menu: () => {} });

export function useActs(): Acts {
  return use(ActsContext);
}
