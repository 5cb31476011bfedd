import { createContext, use, useSyncExternalStore } from "react";
import type { Action } from "../api/gen/graphql";
import type { Signal } from "../api/model";
import { Receipts } from "./receipts";

export const receipts = new Receipts(typeof localStorage === "undefined" ? null : localStorage);

export function useReceipts(): readonly Signal[] {
  return useSyncExternalStore(receipts.subscribe, receipts.list);
}

export function useDismissed(): ReadonlySet<string> {
  return useSyncExternalStore(receipts.subscribe, receipts.dismissed);
}

export interface ViewerInfo {
  principal: string;
  tenantId: string;
  roles: readonly string[];
  /** What the viewer may do somewhere. */
  actions: ReadonlySet<Action>;
  /** Where there are runs that the viewer may see. */
  places: readonly { projectId: string; environmentId: string }[];
}

export const ViewerContext = createContext<ViewerInfo>({ principal: "", tenantId: "", roles: [], actions: new Set(), places: [] });

export function useViewer(): ViewerInfo {
  return use(ViewerContext);
}
