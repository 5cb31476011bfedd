import { type Draft, EMPTY_DRAFT } from "./draft";
import { type Intent, newIntent, type Sendable } from "./intent";

/** An intent without an answer, with its form. */
export interface Kept {
  intent: Intent;
  draft: Draft;
  /** The content that was sent without an answer, as text. Another content needs another intent. */
  sent: string | null;
}

const KEY = "dvt.intent";
const KEPT = 20;

type Storage = Pick<globalThis.Storage, "getItem" | "setItem">;

/** Keeps intents over a reload of the tab, so that sending one again has no second effect. */
export class Intents {
  readonly #storage: Storage;

  constructor(storage: Storage) {
    this.#storage = storage;
  }

  /** Returns the kept intent for the same action, or a new one. */
  form(action: Sendable, runId: string, stepId: string | null, logicalAttemptId: number | null): Kept {
    const fresh = newIntent(action, runId, stepId, logicalAttemptId);
    return this.#read().find((kept) => same(kept.intent, fresh)) ?? { intent: fresh, draft: EMPTY_DRAFT, sent: null };
  }

  /** Returns the intent to send with this content: the kept one if its content is the same, else a new one. */
  sending(of: Omit<Intent, "signalId">, draft: Draft, content: string): Intent {
    const kept = this.form(of.action, of.runId, of.stepId, of.logicalAttemptId);
    const intent =
      kept.sent === null || kept.sent === content
        ? kept.intent
        : newIntent(of.action, of.runId, of.stepId, of.logicalAttemptId);
    this.keep({ intent, draft, sent: content });
    return intent;
  }

  keep(kept: Kept): void {
    this.#write([...this.#read().filter((other) => !same(other.intent, kept.intent)), kept].slice(-KEPT));
  }

  forget(intent: Intent): void {
    this.#write(this.#read().filter((other) => !same(other.intent, intent)));
  }

  #read(): Kept[] {
    try {
      const list: unknown = JSON.parse(this.#storage.getItem(KEY) ?? "[]");
      // Only #write stores this value.
      return Array.isArray(list) ? (list as Kept[]) : [];
    } catch {
      return [];
    }
  }

  #write(list: Kept[]): void {
    this.#storage.setItem(KEY, JSON.stringify(list));
  }
}

function same(a: Intent, b: Intent): boolean {
  return (
    a.action === b.action && a.runId === b.runId && a.stepId === b.stepId && a.logicalAttemptId === b.logicalAttemptId
  );
}
