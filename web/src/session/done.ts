// What the viewer has done beside signals: decisions, policies, freezes, tokens. The server answers such a request when
// it is done; this store keeps the receipt of the answer for the tray and for the place of the button.
import { useCallback, useSyncExternalStore } from "react";
import type { ChangeFieldsFragment } from "../api/gen/graphql";
import { instant } from "../api/model";
import { newId } from "../api/newId";
import { useViewer } from "./viewer";

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
  /** The page that shows the effect; null when it is the page of the button. */
  effect?: Effect | null;
  /** The version before and after, for a document with versions. */
  versions?: readonly [number, number] | null;
  /** The filter of the audit that finds its record; null when there is none. */
  audit: { action: string; run?: string; request?: string } | null;
}

/** A page that shows what a change did. */
export type Effect = { page: "tokens" | "policy" | "quotas" | "service" | "retention" | "runs" } | { run: string };

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

/** What was done, without what the receipt of the answer says. */
export type Did = Pick<Done, "topic" | "what" | "effect"> & {
  /** The receipt of the answer; null or absent when the server changed nothing. */
  change?: ChangeFieldsFragment | null;
  run?: string;
};

/**
 * Records the receipt of a change, for example
 * `record({ topic: "service", what: m.receipt.froze, effect: { page: "service" }, change: freezeTenant.change })`. Call
 * it after the answer; put `<DoneLine topic="service" />` under the button. Without a receipt it records nothing.
 */
export function recordDone({ topic, what, effect = null, change, run }: Did): void {
  if (!change) return;
  const { action, requestId, actor, at, version, versionBefore } = change;
  doneLog.add({
    topic,
    what,
    effect,
    versions: version === null ? null : [versionBefore ?? version - 1, version],
    by: actor,
    at: instant(at),
    audit: { action, request: requestId, ...(run === undefined ? {} : { run }) },
  });
}

/** Records what the server did without a receipt of its own, which is a rerun: the new run shows it. */
export function useDone(): (entry: Pick<Done, "topic" | "what" | "audit" | "effect">) => void {
  const { principal } = useViewer();
  return useCallback((entry) => doneLog.add({ ...entry, by: principal, at: Date.now() }), [principal]);
}
