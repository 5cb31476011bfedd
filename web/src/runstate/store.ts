// The external store of a run: it holds one RunState, tells its subscribers, and judges how true the state is. Only
// frames, and the queries that open the page, write it; no other query and no mutation result does.
import type { SyncReason } from "../api/gen/graphql";
import type { RunHeader, Step } from "../api/model";
import type { Instant } from "../format/format";
import type { Tally } from "../status/stepGroup";
import { ServerClock } from "./clock";
import type { RunFrame } from "./frame";
import { changedSteps, emptyState, momentState, openState, reduce, type RunState, stepOf, unproven } from "./reduce";

const SILENCE_MS = 20_000;
const BEHIND_MS = 2_000;

export type VerdictState = "LOADING" | "LIVE" | "VERIFYING" | "RESYNCING" | "STALE" | "OFFLINE" | "PAST";
export type VerdictReason = SyncReason | "BEHIND" | "CONNECTION_LOST" | null;

/** How true the view is, and since when it is so. */
export interface Verdict {
  state: VerdictState;
  reason: VerdictReason;
  since: Instant;
  asOf: Instant;
  lagMs: number;
  seq: number;
  headSeq: number;
}

/** What the owner of the stream must do next. */
export type Effect = "none" | "resubscribe";

export class RunStore {
  readonly #local: () => number;
  readonly clock: ServerClock;
  #state: RunState;
  /** The state that subscribers were told last. */
  #told: RunState;
  #openedAt: Instant = 0;
  /** The moment that is shown, when it is not now. */
  #moment: Instant | null = null;
  #linkOpen = true;
  #verdict: Verdict = { state: "LOADING", reason: null, since: 0, asOf: 0, lagMs: 0, seq: 0, headSeq: 0 };

  #listeners = new Set<() => void>();
  #changeListeners = new Set<(changed: ReadonlySet<string>) => void>();
  #stepListeners = new Map<string, Set<() => void>>();
  #scheduled = false;

  constructor(local: () => number = Date.now) {
    this.#local = local;
    this.clock = new ServerClock(local);
    this.#state = emptyState(local());
    this.#told = this.#state;
  }

  get epoch(): string | null {
    return this.#state.epoch;
  }
  /** The position held, or -1 before the first state. */
  get seq(): number {
    return this.#state.seq;
  }
  /** The position from which a stream may continue: the one held with all its steps, or null. */
  get resumable(): { seq: number; epoch: string } | null {
    const { whole, epoch, seq } = this.#state;
    return whole && epoch !== null ? { seq, epoch } : null;
  }
  get newestOpsRev(): number {
    return this.#state.newestOpsRev;
  }
  get rewindsDropped(): number {
    return this.#state.rewinds;
  }
  readonly whole = (): boolean => this.#state.whole;
  readonly restoredTo = (): number | null => this.#state.restoredTo;
  readonly header = (): RunHeader | null => this.#state.header;
  readonly order = (): readonly string[] => this.#state.order;
  /**
   * The number of steps in each group, as of the last notification; the same object until one of the numbers changes.
   */
  readonly tally = (): Tally => this.#told.tally;
  readonly verdict = (): Verdict => this.#verdict;
  step(stepId: string): Step | undefined {
    return stepOf(this.#state, stepId);
  }

  /** The server's time. It stands at the last frame while the view is not known to be true. */
  now(): Instant {
    if (this.#moment !== null) return this.#moment;
    return this.frozen() ? Math.max(this.#verdict.asOf, this.#openedAt) : this.clock.now();
  }
  frozen(): boolean {
    return this.#verdict.state === "STALE" || this.#verdict.state === "OFFLINE";
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  subscribeStep(stepId: string, listener: () => void): () => void {
    const listeners = this.#stepListeners.get(stepId) ?? new Set();
    this.#stepListeners.set(stepId, listeners.add(listener));
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0) this.#stepListeners.delete(stepId);
    };
  }

  /** Tells which steps changed, all of one moment together, before `subscribe` does. */
  subscribeSteps(listener: (changed: ReadonlySet<string>) => void): () => void {
    this.#changeListeners.add(listener);
    return () => this.#changeListeners.delete(listener);
  }

  /** Takes the answer to a query while the page opens; see `openState`. */
  open(header: RunHeader, steps: Step[] | null): void {
    const next = openState(this.#state, header, steps);
    if (next === this.#state) return;
    this.#openedAt = this.clock.now();
    this.#set(next);
  }

  receive(frame: RunFrame): Effect {
    const before = this.#state;
    const next = reduce(before, frame, this.#local());
    if (next === before) return "none";
    if (next.last !== before.last && frame.sync === "LIVE") this.clock.observe(frame.asOf);
    this.#set(next);
    return next.asked && !before.asked ? "resubscribe" : "none";
  }

  /**
   * Shows one moment of the log, earlier or later than the one shown before. A store that has shown one is for the
   * past alone: it takes no frames, and nothing in it moves by itself.
   */
  show(header: RunHeader, steps: Step[], at: Instant): void {
    this.#moment = at;
    this.#set(momentState(this.#state, header, steps, at));
  }

  /** The connection came or went. After a return the view is unproven until a frame confirms it. */
  link(open: boolean): void {
    if (open && !this.#linkOpen) this.#state = unproven(this.#state, this.#local());
    this.#linkOpen = open;
    this.tick();
  }

  /** Doubts the view, for example after sleep, until a frame confirms it. */
  doubt(): void {
    this.#state = unproven(this.#state, this.#local());
    this.tick();
  }

  /** Judges again; call a few times a second. */
  tick(): Effect {
    const before = this.#verdict;
    this.#judge();
    if (this.#verdict !== before) this.#schedule();
    if (this.#verdict.reason !== "BEHIND" || this.#state.asked) return "none";
    this.#state = { ...this.#state, asked: true };
    return "resubscribe";
  }

  #set(state: RunState): void {
    this.#state = state;
    this.#schedule();
  }

  #judge(): void {
    const [state, reason] = this.#assess();
    const { last, seq, headSeq } = this.#state;
    const held = this.#verdict;
    const next: Verdict = {
      state,
      reason,
      since: held.state === state && held.reason === reason ? held.since : this.clock.now(),
      asOf: last?.asOf ?? 0,
      lagMs: last?.lagMs ?? 0,
      seq: Math.max(0, seq),
      headSeq,
    };
    const same =
      held.state === next.state &&
      held.reason === next.reason &&
      held.asOf === next.asOf &&
      held.seq === next.seq &&
      held.headSeq === next.headSeq &&
      held.lagMs === next.lagMs;
    if (!same) this.#verdict = next;
  }

  #assess(): [VerdictState, VerdictReason] {
    if (this.#moment !== null) return ["PAST", null];
    const { header, last, missing, proven, behindAt, frameAt } = this.#state;
    const now = this.#local();
    if (!this.#linkOpen || now - frameAt > SILENCE_MS) return ["OFFLINE", "CONNECTION_LOST"];
    if (header === null) return ["LOADING", null];
    if (last === null) return ["VERIFYING", null];
    if (missing !== null) return ["STALE", missing];
    if (!proven) return ["VERIFYING", "RECONNECTED"];
    if (last.sync !== "LIVE") return [last.sync, last.reason];
    if (behindAt !== null && now - behindAt > BEHIND_MS) return ["STALE", "BEHIND"];
    return ["LIVE", last.reason];
  }

  /** Coalesces on a microtask: an animation frame never comes in a hidden tab. */
  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    queueMicrotask(() => {
      this.#scheduled = false;
      this.#judge();
      const changed = changedSteps(this.#told, this.#state);
      this.#told = this.#state;
      if (changed.size > 0) for (const listener of this.#changeListeners) listener(changed);
      for (const stepId of changed) for (const listener of this.#stepListeners.get(stepId) ?? []) listener();
      for (const listener of this.#listeners) listener();
    });
  }
}
