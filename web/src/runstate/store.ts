// The one holder of a run's state in this tab. Frames write it, and what the page opens with, by the same
// order: what is shown is always one position of the log and never an older one after a newer one. No
// other query and no mutation result writes it.
import type { SyncReason } from "../api/gen/graphql";
import type { Instant } from "../format/format";
import type { RunHeader, Step } from "../api/model";
import { ServerClock } from "./clock";
import type { RunFrame } from "./frame";
import { naturalSort } from "./naturalSort";
import { EMPTY_TALLY, type StepGroup, STEP_GROUPS, stepGroup, type Tally } from "../status/stepGroup";

const SILENCE_MS = 20_000;
const BEHIND_MS = 2_000;

export type VerdictState = "LOADING" | "LIVE" | "VERIFYING" | "RESYNCING" | "STALE" | "OFFLINE" | "PAST";
export type VerdictReason = SyncReason | "BEHIND" | "CONNECTION_LOST" | null;

/** How true the view is, and since when it is not. */
export interface Verdict {
  state: VerdictState;
  reason: VerdictReason;
  since: Instant;
  asOf: Instant;
  lagMs: number;
  seq: number;
  headSeq: number;
}

/** What the holder of the stream must do after a frame. */
export type Effect = "none" | "resubscribe";

export class RunStore {
  readonly #local: () => number;
  readonly clock: ServerClock;
  #epoch: string | null = null;
  #retired = new Set<string>();
  #seq = -1;
  #opsRev = -1;
  /** The steps are known too. */
  #whole = false;
  #openedAt: Instant = 0;
  #header: RunHeader | null = null;
  #steps = new Map<string, Step>();
  /** As the API gives the steps, and as they are shown. */
  #given: readonly string[] = [];
  #order: readonly string[] = [];
  #counts: Record<StepGroup, number> = { ...EMPTY_TALLY };
  #tally: Tally = EMPTY_TALLY;
  #restoredTo: number | null = null;

  /** The moment that is shown, when it is not now. */
  #moment: Instant | null = null;
  #linkOpen = true;
  #proven = false;
  #cause: VerdictReason = null;
  #headSeq = 0;
  #behindAt: number | null = null;
  #asked = false;
  #lastFrameAt: number;
  #last: Pick<RunFrame, "sync" | "reason" | "asOf" | "lagMs"> | null = null;
  #verdict: Verdict = { state: "LOADING", reason: null, since: 0, asOf: 0, lagMs: 0, seq: 0, headSeq: 0 };
  #rewinds = 0;

  #listeners = new Set<() => void>();
  #changeListeners = new Set<(changed: ReadonlySet<string>) => void>();
  #stepListeners = new Map<string, Set<() => void>>();
  #dirty = new Set<string>();
  #scheduled = false;

  constructor(local: () => number = Date.now) {
    this.#local = local;
    this.clock = new ServerClock(local);
    this.#lastFrameAt = local();
  }

  get epoch(): string | null {
    return this.#epoch;
  }
  /** The position held, or -1 before the first state. */
  get seq(): number {
    return this.#seq;
  }
  /** What a stream may go on from: the position held with all its steps, or null. */
  get resumable(): { seq: number; epoch: string } | null {
    return this.#whole && this.#epoch !== null ? { seq: this.#seq, epoch: this.#epoch } : null;
  }
  /** The steps are known; before that only the header may be. */
  readonly whole = (): boolean => this.#whole;
  get opsRev(): number {
    return this.#opsRev;
  }
  /** How many frames offered an older state than the one held. */
  get rewindsDropped(): number {
    return this.#rewinds;
  }
  /** The position to which history was restored while we watched, or null. */
  readonly restoredTo = (): number | null => this.#restoredTo;
  readonly header = (): RunHeader | null => this.#header;
  readonly order = (): readonly string[] => this.#order;
  /** How many steps stand where; the same object until one of the numbers changes. */
  readonly tally = (): Tally => this.#tally;
  readonly verdict = (): Verdict => this.#verdict;
  step(stepId: string): Step | undefined {
    return this.#steps.get(stepId);
  }

  /** The server's time; stands still at the last frame while the view is not known to be true. */
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

  /**
   * What a query said while the page opens: how the run stands, then the same with its steps. It has to be newer, as
   * a frame has to be, and it is only verified: a frame says whether it is true.
   */
  open(header: RunHeader, steps: Step[] | null): void {
    const { storeEpoch: epoch, runSeq, opsRev } = header;
    if (this.#whole || this.#retired.has(epoch)) return;
    if (this.#epoch !== null && this.#epoch !== epoch) this.#forget();
    if (runSeq < this.#seq || (runSeq === this.#seq && opsRev < this.#opsRev)) return;
    if (steps === null) this.#header = header;
    else this.#replace(header, steps);
    this.#openedAt = this.clock.now();
    this.#advance({ epoch, opsRev }, runSeq);
    this.#schedule();
  }

  receive(frame: RunFrame): Effect {
    if (this.#retired.has(frame.epoch)) return "none";
    // Of a header alone nothing is lost with its history.
    if (this.#epoch !== null && frame.epoch !== this.#epoch && !this.#whole) this.#forget();
    if (this.#epoch !== null && frame.epoch !== this.#epoch) return this.#otherEpoch(frame);
    const effect = this.#apply(frame);
    this.#schedule();
    return effect;
  }

  /**
   * Shows one moment of the log, earlier or later than the one shown before. A store that has shown one is for the
   * past alone: it takes no frames, and nothing in it moves by itself.
   */
  show(header: RunHeader, steps: Step[], at: Instant): void {
    this.#moment = at;
    const there = new Set(steps.map((step) => step.stepId));
    for (const stepId of this.#steps.keys()) if (!there.has(stepId)) this.#dirty.add(stepId);
    this.#replace(header, steps);
    this.#epoch = header.storeEpoch;
    this.#seq = header.runSeq;
    this.#opsRev = header.opsRev;
    this.#last = { sync: "LIVE", reason: null, asOf: at, lagMs: 0 };
    this.#headSeq = header.runSeq;
    this.#schedule();
  }

  /** The connection came or went. After a return nothing is believed until a frame proves it. */
  link(open: boolean): void {
    if (open && !this.#linkOpen) {
      this.#proven = false;
      this.#lastFrameAt = this.#local();
    }
    this.#linkOpen = open;
    this.tick();
  }

  /** Doubt the view, for instance after sleep, until a frame proves it. */
  doubt(): void {
    this.#proven = false;
    this.#lastFrameAt = this.#local();
    this.tick();
  }

  /** Judges again; call a few times a second. */
  tick(): Effect {
    const before = this.#verdict;
    this.#judge();
    if (this.#verdict !== before) this.#schedule();
    const behind = this.#verdict.reason === "BEHIND" && !this.#asked;
    if (behind) this.#asked = true;
    return behind ? "resubscribe" : "none";
  }

  #otherEpoch(frame: RunFrame): Effect {
    if (!frame.reset || frame.snapshot === null) {
      this.#cause = "EPOCH_CHANGED";
      this.#schedule();
      if (this.#asked) return "none";
      this.#asked = true;
      return "resubscribe";
    }
    if (this.#epoch !== null) this.#retired.add(this.#epoch);
    this.#forget();
    this.#headSeq = 0;
    for (const stepId of this.#steps.keys()) this.#dirty.add(stepId);
    this.#steps = new Map();
    this.#counts = { ...EMPTY_TALLY };
    this.#given = [];
    this.#order = [];
    this.#restoredTo = frame.snapshot.header.runSeq;
    const effect = this.#apply(frame);
    this.#schedule();
    return effect;
  }

  #forget(): void {
    this.#epoch = null;
    this.#seq = -1;
    this.#opsRev = -1;
    this.#whole = false;
  }

  #apply(frame: RunFrame): Effect {
    const { snapshot, delta } = frame;
    if (snapshot) {
      if (frame.runSeq < this.#seq) {
        this.#rewinds += 1;
        return "none";
      }
      if (frame.runSeq > this.#seq || frame.opsRev > this.#opsRev || !this.#whole) {
        this.#replace(snapshot.header, snapshot.steps);
        this.#advance(frame, frame.runSeq);
      }
    } else if (delta) {
      if (delta.toSeq < this.#seq) return "none";
      if (delta.fromSeq > this.#seq || !this.#whole) return this.#gap();
      if (delta.toSeq > this.#seq || frame.opsRev > this.#opsRev) {
        this.#merge(delta.header, delta.steps);
        this.#advance(frame, delta.toSeq);
      }
    } else if (frame.runSeq < this.#seq) {
      return "none";
    } else if (frame.runSeq > this.#seq) {
      // What this viewer was shown before was lost on its way.
      return this.#gap();
    }
    this.#observe(frame);
    return "none";
  }

  #gap(): Effect {
    this.#cause = "GAP";
    if (this.#asked) return "none";
    this.#asked = true;
    return "resubscribe";
  }

  #advance({ epoch, opsRev }: Pick<RunFrame, "epoch" | "opsRev">, seq: number): void {
    this.#epoch = epoch;
    this.#seq = seq;
    this.#opsRev = Math.max(this.#opsRev, opsRev);
  }

  #observe(frame: RunFrame): void {
    this.#lastFrameAt = this.#local();
    if (this.#last && frame.asOf < this.#last.asOf && frame.runSeq === this.#seq && !frame.reset) return;
    this.#last = frame;
    this.#headSeq = Math.max(this.#headSeq, frame.headSeq ?? 0, frame.runSeq);
    if (frame.sync === "LIVE") this.clock.observe(frame.asOf);
    if (this.#header === null) return;
    if (this.#headSeq <= this.#seq) this.#behindAt = null;
    else this.#behindAt ??= this.#local();
    this.#cause = null;
    this.#asked = false;
    this.#proven = true;
  }

  #replace(header: RunHeader, steps: Step[]): void {
    this.#header = header;
    this.#whole = true;
    const next = new Map<string, Step>();
    for (const step of steps) {
      const held = this.#steps.get(step.stepId);
      const same =
        held !== undefined &&
        held.changedSeq === step.changedSeq &&
        held.pendingRetry === step.pendingRetry &&
        sameWait(held, step);
      next.set(step.stepId, same ? held : step);
      if (!same) this.#dirty.add(step.stepId);
    }
    this.#steps = next;
    this.#counts = { ...EMPTY_TALLY };
    for (const step of next.values()) this.#counts[stepGroup(step)] += 1;
    this.#reorder(steps);
  }

  #merge(header: RunHeader, steps: Step[]): void {
    this.#header = header;
    for (const step of steps) {
      const held = this.#steps.get(step.stepId);
      if (held) this.#counts[stepGroup(held)] -= 1;
      this.#counts[stepGroup(step)] += 1;
      this.#steps.set(step.stepId, step);
      this.#dirty.add(step.stepId);
    }
    if (this.#steps.size !== this.#order.length) this.#reorder([...this.#steps.values()]);
  }

  #reorder(steps: readonly Step[]): void {
    const same = steps.length === this.#given.length && steps.every(({ stepId }, i) => stepId === this.#given[i]);
    if (same) return;
    this.#given = steps.map(({ stepId }) => stepId);
    this.#order = naturalSort(steps);
  }

  #judge(): void {
    const [state, reason] = this.#state();
    const last = this.#last;
    const held = this.#verdict;
    const next: Verdict = {
      state,
      reason,
      since: held.state === state && held.reason === reason ? held.since : this.clock.now(),
      asOf: last?.asOf ?? 0,
      lagMs: last?.lagMs ?? 0,
      seq: Math.max(0, this.#seq),
      headSeq: this.#headSeq,
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

  #state(): [VerdictState, VerdictReason] {
    if (this.#moment !== null) return ["PAST", null];
    const now = this.#local();
    const silent = now - this.#lastFrameAt > SILENCE_MS;
    if (!this.#linkOpen || silent) return ["OFFLINE", "CONNECTION_LOST"];
    if (this.#header === null) return ["LOADING", null];
    if (this.#last === null) return ["VERIFYING", null];
    if (this.#cause !== null) return ["STALE", this.#cause];
    if (!this.#proven) return ["VERIFYING", "RECONNECTED"];
    if (this.#last.sync !== "LIVE") return [this.#last.sync, this.#last.reason];
    if (this.#behindAt !== null && now - this.#behindAt > BEHIND_MS) return ["STALE", "BEHIND"];
    return ["LIVE", this.#last.reason];
  }

  /** Coalesces on a microtask: an animation frame never comes in a hidden tab. */
  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    queueMicrotask(() => {
      this.#scheduled = false;
      this.#judge();
      const dirty = this.#dirty;
      this.#dirty = new Set();
      if (STEP_GROUPS.some((group) => this.#counts[group] !== this.#tally[group])) this.#tally = { ...this.#counts };
      if (dirty.size > 0) for (const listener of this.#changeListeners) listener(dirty);
      for (const stepId of dirty) for (const listener of this.#stepListeners.get(stepId) ?? []) listener();
      for (const listener of this.#listeners) listener();
    });
  }
}

function sameWait(a: Step, b: Step): boolean {
  return a.wait?.kind === b.wait?.kind && a.wait?.blockingSteps.length === b.wait?.blockingSteps.length;
}
