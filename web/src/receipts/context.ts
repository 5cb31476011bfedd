import { useSyncExternalStore } from "react";
import type { Signal } from "../api/model";
import { Receipts } from "./receipts";

export const receipts = new Receipts(typeof localStorage === "undefined" ? null : localStorage);

export function useReceipts(): readonly Signal[] {
  return useSyncExternalStore(receipts.subscribe, receipts.list);
}

export function useDismissed(): ReadonlySet<string> {
  return useSyncExternalStore(receipts.subscribe, receipts.dismissed);
}
