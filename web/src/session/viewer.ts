import { createContext, use } from "react";
import type { Action, ViewerQuery } from "../api/gen/graphql";

/** The viewer as the server describes them, without the receipts, which have a store of their own. */
export type Viewer = Omit<ViewerQuery["viewer"], "signals">;

export interface ViewerInfo {
  principal: string;
  tenantId: string;
  roles: readonly string[];
  /** The actions that the viewer may do somewhere. */
  actions: ReadonlySet<Action>;
  /** The projects and environments with runs that the viewer may see. */
  places: readonly { projectId: string; environmentId: string }[];
  /** The version of the policy that grants the rights. */
  policyVersion: number;
}

export const NOBODY: ViewerInfo = {
  principal: "",
  tenantId: "",
  roles: [],
  actions: new Set(),
  places: [],
  policyVersion: 0,
};

export const ViewerContext = createContext(NOBODY);

export function useViewer(): ViewerInfo {
  return use(ViewerContext);
}
