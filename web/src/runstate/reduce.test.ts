import { type Arbitrary, array, assert, constantFrom, nat, option, property, record } from "fast-check";
import { describe, expect, it } from "vitest";
import type { RunHeader, Step } from "../api/model";
import type { RunFrame } from "./frame";
import { changedSteps, emptyState, openState, reduce, type RunState, stepOf } from "./reduce";

const STEPS = ["l1", "l2", "l10", "a", "b"];
const STATUSES = ["PENDING", "RUNNING", "FAILED", "SUCCESS", "SKIPPED"] as const;
const NOW = 1_000_000;

/** Event i+1 gives one step one status. */
type History = readonly { step: number; status: number }[];

function stepsAt(history: History, seq: number): Step[] {
  const steps = STEPS.map((stepId) => ({ stepId, status: STATUSES[0] as Step["status"], changedSeq: 0 }));
  for (const [i, { step, status }] of history.slice(0, seq).entries()) {
    const held = steps[step];
    if (held) steps[step] = { ...held, status: STATUSES[status] ?? "PENDING", changedSeq: i + 1 };
  }
  return steps.map(
    (step) => ({ ...step, pendingRetry: false, wait: null, dependsOn: [] as string[] }) as unknown as Step,
  );
}

function headerAt(epoch: string, seq: number): RunHeader {
  return { runSeq: seq, storeEpoch: epoch, opsRev: seq, status: "RUNNING" } as RunHeader;
}

function quiet(epoch: string, seq: number): RunFrame {
  return {
    sync: "LIVE",
    reason: null,
    runSeq: seq,
    headSeq: seq,
    epoch,
    opsRev: seq,
    asOf: NOW + seq,
    lagMs: 0,
    reset: false,
    snapshot: null,
    delta: null,
  };
}

function snapshot(history: History, epoch: string, seq: number, reset = false): RunFrame {
  return {
    ...quiet(epoch, seq),
    reset,
    snapshot: { header: headerAt(epoch, seq), steps: stepsAt(history, seq) },
  };
}

function delta(history: History, epoch: string, fromSeq: number, toSeq: number): RunFrame {
  const changed = new Set(history.slice(fromSeq, toSeq).map(({ step }) => step));
  const steps = stepsAt(history, toSeq).filter((_, i) => changed.has(i));
  return { ...quiet(epoch, toSeq), delta: { fromSeq, toSeq, header: headerAt(epoch, toSeq), steps } };
}

/** The visible part of a state, without identities and freshness. */
function shown({ epoch, seq, header, steps, order, tally }: RunState): unknown {
  return { epoch, seq, header, steps, order, tally };
}

/** Freezes a state, so that writing to it throws. */
function frozen(state: RunState): RunState {
  Object.freeze(state.steps);
  Object.freeze(state.order);
  Object.freeze(state.tally);
  return Object.freeze(state);
}

const histories = array(record({ step: nat(STEPS.length - 1), status: nat(STATUSES.length - 1) }), {
  minLength: 1,
  maxLength: 24,
});
/** The cuts of a stream, and for each frame its kind, its copies and its delay. */
const ways = record({
  cuts: array(nat(24), { maxLength: 8 }),
  kinds: array(constantFrom("delta", "overlap", "snapshot", "quiet"), { minLength: 10, maxLength: 10 }),
  copies: array(constantFrom(0, 1, 1, 1, 2, 3), { minLength: 10, maxLength: 10 }),
  order: array(nat(1_000), { minLength: 30, maxLength: 30 }),
  /** Receipts have a revision of their own, so an older state may carry a newer one. */
  revisions: array(nat(30), { minLength: 10, maxLength: 10 }),
});

/** The frames that a server may send about a history, in the order in which they arrive. */
function framesOf(
  history: History,
  epoch: string,
  way: typeof ways extends Arbitrary<infer W> ? W : never,
): RunFrame[] {
  const cuts = [...new Set([0, ...way.cuts.map((cut) => cut % (history.length + 1)), history.length])].toSorted(
    (a, b) => a - b,
  );
  const sent = cuts.slice(1).flatMap((to, i) => {
    const from = cuts[i] ?? 0;
    const kind = way.kinds[i % way.kinds.length];
    const frame =
      kind === "snapshot"
        ? snapshot(history, epoch, to)
        : kind === "quiet"
          ? quiet(epoch, from)
          : delta(history, epoch, kind === "overlap" ? Math.max(0, from - 2) : from, to);
    const sent = { ...frame, opsRev: frame.opsRev + (way.revisions[i % way.revisions.length] ?? 0) };
    return Array.from({ length: way.copies[i % way.copies.length] ?? 1 }, () => sent);
  });
  return sent
    .map((frame, i) => ({ frame, at: i + ((way.order[i % way.order.length] ?? 0) % 7) }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ frame }) => frame);
}

/** Starts the stream again as the page does: from the state if it has the steps, else from a snapshot. */
function resubscribe(state: RunState, history: History, epoch: string): RunFrame {
  return state.whole && state.epoch === epoch
    ? delta(history, epoch, state.seq, history.length)
    : snapshot(history, epoch, history.length, state.epoch !== null);
}

describe("reduce", () => {
  it("gives the state of a snapshot after any split, copy, loss and order of frames, and never goes back", () => {
    assert(
      property(histories, ways, option(nat(24)), (history, way, opened) => {
        let state = emptyState(0);
        if (opened !== null) {
          const seq = opened % (history.length + 1);
          state = openState(state, headerAt("e0", seq), stepsAt(history, seq));
        }
        for (const frame of framesOf(history, "e0", way)) {
          const before = frozen(state);
          state = reduce(before, frame, NOW);
          expect(state.seq, "the position").toBeGreaterThanOrEqual(before.seq);
          expect(reduce(before, frame, NOW), "the same input gives the same state").toEqual(state);
          if (state.whole) expect(state.steps, "one position of the log").toEqual(stepsAt(history, state.seq));
        }
        state = reduce(state, resubscribe(state, history, "e0"), NOW);
        const whole = reduce(emptyState(0), snapshot(history, "e0", history.length), NOW);
        expect(shown(state)).toEqual(shown(whole));
      }),
      { numRuns: 1_000 },
    );
  });

  it("replaces a history by a restored one, and takes no late frame of the old one", () => {
    assert(
      property(histories, histories, ways, array(nat(40), { maxLength: 6 }), (old, history, way, late) => {
        let state = reduce(emptyState(0), snapshot(old, "e0", old.length), NOW);
        state = reduce(state, snapshot(history, "e1", history.length, true), NOW);
        expect(state.restoredTo).toBe(history.length);
        const former = framesOf(old, "e0", way);
        for (const i of late) {
          const frame = former[i % Math.max(1, former.length)];
          if (frame) expect(reduce(state, frame, NOW)).toBe(state);
        }
        expect(shown(state)).toEqual(shown(reduce(emptyState(0), snapshot(history, "e1", history.length), NOW)));
      }),
      { numRuns: 500 },
    );
  });

  it("keeps the identity of all that a frame does not change", () => {
    const history: History = [
      { step: 0, status: 1 },
      { step: 1, status: 1 },
    ];
    const before = reduce(emptyState(0), snapshot(history, "e0", 1), NOW);
    const after = reduce(before, snapshot(history, "e0", 2), NOW);
    expect(stepOf(after, "l1")).toBe(stepOf(before, "l1"));
    expect([after.index, after.order]).toEqual([before.index, before.order]);
    expect(after.index).toBe(before.index);
    expect([...changedSteps(before, after)]).toEqual(["l2"]);
    expect(reduce(after, quiet("e0", 2), NOW).tally).toBe(after.tally);
  });
});
