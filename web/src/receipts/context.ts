import { useSyncExternalStore } from "react";
import type { Signal } from "../api/model";
import { type ReceiptPlace, Receipts } from "./receipts";

export const receipts = new Receipts(typeof localStorage === "undefined" ? null : localStorage);

export function useReceipts(): readonly Signal[] {
  return useSyncExternalStore(receipts.subscribe, receipts.list);
}

/** The time up to which the receipts of a place were read; 0 when none were. */
export function useSeen(place: ReceiptPlace): number {
  return useSyncExternalStore(receipts.subscribe, receipts.seen).get(place) ?? 0;
}

export function useDismissed(): ReadonlySet<string> {
  return useSyncExternalStore(receipts.subscribe, receipts.dismissed);
}
