// Receipts are server objects: this store only remembers the furthest stage seen of each.
import type { Signal } from "../api/model";

const KEPT = 200;
/** The most receipts that are kept beyond that because they are on their way. */
const MOVING_KEPT = 1_000;
const DISMISSED_KEPT = 100;
const DISMISSED_KEY = "dvt.receipts.dismissed";
const SEEN_KEPT = 100;
const SEEN_KEY = "dvt.receipts.seen";

/** The place of a list of receipts: the tray, or the id of a run. */
export type ReceiptPlace = string;
export const TRAY: ReceiptPlace = "tray";

/** The stage of a receipt as a number, which never decreases. */
function stage(signal: Signal): number {
  if (signal.decision === "REJECTED") return 3;
  switch (signal.application) {
    case "DELIVERED":
      return 1;
    case "APPLIED":
    case "NOOP":
    case "NOT_APPLIED":
      return 3;
    default:
      return 0;
  }
}

export function settled(signal: Signal): boolean {
  return stage(signal) === 3;
}

/** Refused, or accepted and not applied: a person must read it. */
export function failed(signal: Signal): boolean {
  return signal.decision === "REJECTED" || signal.application === "NOT_APPLIED";
}

/**
 * Why a receipt still moves, for example because dvt ends the run by itself; null when there is no reason. Null also
 * when `slow` is false, because an ordinary stop takes less than a second.
 */
export function movingReason(signal: Signal, slow?: boolean): string | null {
  return settled(signal) || slow === false ? null : signal.applicationReason;
}

export class Receipts {
  #signals = new Map<string, Signal>();
  #list: readonly Signal[] = [];
  #dismissed: ReadonlySet<string>;
  #seen: ReadonlyMap<ReceiptPlace, number>;
  #listeners = new Set<() => void>();
  readonly #storage: Pick<Storage, "getItem" | "setItem"> | null;

  constructor(storage: Pick<Storage, "getItem" | "setItem"> | null) {
    this.#storage = storage;
    this.#dismissed = new Set(storage?.getItem(DISMISSED_KEY)?.split(" ") ?? []);
    this.#seen = new Map(seenOf(storage?.getItem(SEEN_KEY) ?? ""));
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };
  /** Newest first. */
  readonly list = (): readonly Signal[] => this.#list;
  readonly dismissed = (): ReadonlySet<string> => this.#dismissed;
  /** Receipts newer than this count as new; one time for each tray. */
  readonly seen = (): ReadonlyMap<ReceiptPlace, number> => this.#seen;

  receive(...signals: Signal[]): void {
    for (const signal of signals) {
      const key = `${signal.runId}/${signal.signalId}`;
      const held = this.#signals.get(key);
      if (held && stage(held) > stage(signal)) continue;
      this.#signals.set(key, { ...signal, quiescentSeq: signal.quiescentSeq ?? held?.quiescentSeq ?? null });
    }
    // What is on its way stays, however many came after it.
    const sorted = [...this.#signals.values()]
      .toSorted((a, b) => b.receivedAt - a.receivedAt)
      .filter((signal, i) => i < KEPT || (i < MOVING_KEPT && !settled(signal)));
    this.#signals = new Map(sorted.map((signal) => [`${signal.runId}/${signal.signalId}`, signal]));
    this.#list = sorted;
    this.#tell();
  }

  dismiss(...signalIds: string[]): void {
    const kept = [...this.#dismissed, ...signalIds].slice(-DISMISSED_KEPT);
    this.#dismissed = new Set(kept);
    this.#storage?.setItem(DISMISSED_KEY, kept.join(" "));
    this.#tell();
  }

  /** Remembers that the receipts of a place were read up to a time, which never goes back. */
  see(place: ReceiptPlace, upTo: number): void {
    if ((this.#seen.get(place) ?? 0) >= upTo) return;
    const others = [...this.#seen].filter(([other]) => other !== place);
    this.#seen = new Map([...others, [place, upTo] as const].slice(-SEEN_KEPT));
    this.#storage?.setItem(SEEN_KEY, [...this.#seen].map(([of, at]) => `${of} ${at}`).join("\n"));
    this.#tell();
  }

  #tell(): void {
    for (const listener of this.#listeners) listener();
  }
}

/** Parses the stored text: a line for each tray with its name and a time in ms. */
function seenOf(text: string): [ReceiptPlace, number][] {
  return text.split("\n").flatMap((line) => {
    const [place = "", at = ""] = line.split(" ");
    return place !== "" && Number(at) > 0 ? [[place, Number(at)] as [ReceiptPlace, number]] : [];
  });
}
