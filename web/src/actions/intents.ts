import { type Draft, EMPTY_DRAFT } from "./draft";
import { type Intent, newIntent, type Sendable } from "./intent";

/** An intent that was formed and has not been answered, with what was typed. */
export interface Kept {
  intent: Intent;
  draft: Draft;
  /** What was sent without an answer, as text; another content is another intent. */
  sent: string | null;
}

const KEY = "dvt.intent";
const KEPT = 20;

type Storage = Pick<globalThis.Storage, "getItem" | "setItem">;

/** Intents outlive a reload of the tab, so that sending again after one is a repetition and not a second effect. */
export class Intents {
  readonly #storage: Storage;

  constructor(storage: Storage) {
    this.#storage = storage;
  }

  /** The intent that was formed before for the same thing, else a new one. */
  form(action: Sendable, runId: string, stepId: string | null, logicalAttemptId: number | null): Kept {
    const fresh = newIntent(action, runId, stepId, logicalAttemptId);
    return this.#read().find((kept) => same(kept.intent, fresh)) ?? { intent: fresh, draft: EMPTY_DRAFT, sent: null };
  }

  /** The intent that is sent with this content: one without an answer is repeated, as long as it says the same. */
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
      // Only #write puts it there.
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
