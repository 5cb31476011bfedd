import { createContext, use } from "react";
import type { Action, ViewerQuery } from "../api/gen/graphql";

/** Who is signed in, as the server says; the receipts are kept by themselves. */
export type Viewer = Omit<ViewerQuery["viewer"], "signals">;

export interface ViewerInfo {
  principal: string;
  tenantId: string;
  roles: readonly string[];
  /** What the viewer may do somewhere. */
  actions: ReadonlySet<Action>;
  /** Where there are runs that the viewer may see. */
  places: readonly { projectId: string; environmentId: string }[];
  /** Of the policy that says so. */
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
