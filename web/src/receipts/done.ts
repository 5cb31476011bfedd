// What the viewer has done beside signals: decisions, policies, freezes, tokens. The server answers such a request when
// it is done, so there is no receipt; this store keeps a line for the tray and for the place of the button.
import { useCallback, useSyncExternalStore } from "react";
import type { Action } from "../api/gen/graphql";
import { newId } from "../api/newId";
import { useViewer } from "../session/viewer";

const KEPT = 50;
const KEY = "dvt.done";

/** One thing that is done. */
export interface Done {
  id: string;
  /** The place of its button, such as "freeze" or the id of a run. `DoneLine` shows the newest of its topic. */
  topic: string;
  /** A sentence without its actor, such as "Froze the tenant". */
  what: string;
  by: string;
  at: number;
  /** The filter of the audit that finds its record; null when there is none. */
  audit: { action: Action; run?: string } | null;
}

type Kept = Pick<Storage, "getItem" | "setItem">;

export class DoneLog {
  #list: readonly Done[];
  #listeners = new Set<() => void>();
  readonly #storage: Kept | null;

  constructor(storage: Kept | null) {
    this.#storage = storage;
    this.#list = read(storage);
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };
  /** Newest first. */
  readonly list = (): readonly Done[] => this.#list;

  add(entry: Omit<Done, "id">): void {
    this.#list = [{ ...entry, id: newId() }, ...this.#list].slice(0, KEPT);
    this.#storage?.setItem(KEY, JSON.stringify(this.#list));
    for (const listener of this.#listeners) listener();
  }
}

function read(storage: Kept | null): readonly Done[] {
  try {
    const list: unknown = JSON.parse(storage?.getItem(KEY) ?? "[]");
    // Only add stores this value.
    return Array.isArray(list) ? (list as Done[]) : [];
  } catch {
    return [];
  }
}

export const doneLog = new DoneLog(typeof sessionStorage === "undefined" ? null : sessionStorage);

/** Everything that the viewer has done in this tab, newest first. */
export function useDoneList(): readonly Done[] {
  const { principal } = useViewer();
  return useSyncExternalStore(doneLog.subscribe, doneLog.list).filter(({ by }) => by === principal);
}

/**
 * Records that the server has done what the viewer asked for, for example
 * `done({ topic: "freeze", what: m.service.frozen, audit: { action: "FREEZE_TENANT" } })`. Call it after the answer;
 * put `<DoneLine topic="freeze" />` under the button.
 */
export function useDone(): (entry: Pick<Done, "topic" | "what" | "audit">) => void {
  const { principal } = useViewer();
  return useCallback((entry) => doneLog.add({ ...entry, by: principal, at: Date.now() }), [principal]);
}
