import { useReceipts } from "./context";
import type { Signal } from "../api/model";
import { useRunState } from "../runstate/context";

/** Every signal to the run, by anyone, up to the moment that is shown. */
export function useRunReceipts(runId: string): readonly Signal[] {
  const upTo = useRunState((store) => (store.verdict().state === "PAST" ? store.now() : null));
  return useReceipts().filter((signal) => signal.runId === runId && (upTo === null || signal.receivedAt <= upTo));
}
