import { createContext, use } from "react";
import type { Action, Role, ViewerQuery } from "../api/gen/graphql";

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
  /** The roles that the viewer may take by break-glass. */
  breakGlass: readonly { role: Role; maxMinutes: number; actions: readonly Action[] }[];
  /** The roles that the viewer holds by break-glass, and when the last of them expires. */
  breakGlassRoles: readonly Role[];
  breakGlassUntil: string | null;
  /** The principals of `dvt dev`; empty elsewhere. */
  devPrincipals: Viewer["devPrincipals"];
}

export const NOBODY: ViewerInfo = {
  principal: "",
  tenantId: "",
  roles: [],
  actions: new Set(),
  places: [],
  policyVersion: 0,
  breakGlass: [],
  breakGlassRoles: [],
  breakGlassUntil: null,
  devPrincipals: [],
};

export const ViewerContext = createContext(NOBODY);

export function useViewer(): ViewerInfo {
  return use(ViewerContext);
}
