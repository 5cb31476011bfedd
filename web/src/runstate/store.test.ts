import { describe, expect, it } from "vitest";
import type { RunHeader, Step } from "../api/model";
import type { RunFrame } from "./frame";
import { RunStore } from "./store";

// A history is a list of changes: entry i is the step that event i+1 changed.
type History = string[];
const STEPS = ["a", "b", "c", "d", "e"];

function header(seq: number, epoch: string): RunHeader {
  // The store never looks inside a header beyond its position.
  return { runSeq: seq, storeEpoch: epoch, opsRev: seq, status: seq % 2 ? "RUNNING" : "PAUSED" } as RunHeader;
}
function step(stepId: string, changedSeq: number, epoch: string): Step {
  return {
    stepId,
    changedSeq,
    name: `${epoch}:${changedSeq}`,
    pendingRetry: false,
    wait: null,
    dependsOn: [] as readonly string[],
  } as Step;
}
function fold(history: History, seq: number, epoch: string): Map<string, Step> {
  const steps = new Map(STEPS.map((id) => [id, step(id, 0, epoch)]));
  history.slice(0, seq).forEach((id, i) => steps.set(id, step(id, i + 1, epoch)));
  return steps;
}

let clock = 1_000_000;
function base(epoch: string, runSeq: number, head: number): RunFrame {
  return {
    sync: "LIVE",
    reason: null,
    runSeq,
    headSeq: head,
    epoch,
    opsRev: runSeq,
    asOf: clock,
    lagMs: 0,
    reset: false,
    snapshot: null,
    delta: null,
  };
}
function snapshot(history: History, epoch: string, seq: number, reset = false): RunFrame {
  return {
    ...base(epoch, seq, seq),
    reset,
    snapshot: { header: header(seq, epoch), steps: [...fold(history, seq, epoch).values()] },
  };
}
function delta(history: History, epoch: string, fromSeq: number, toSeq: number): RunFrame {
  const changed = new Set(history.slice(fromSeq, toSeq));
  const steps = [...fold(history, toSeq, epoch).values()].filter((s) => changed.has(s.stepId));
  return { ...base(epoch, toSeq, toSeq), delta: { fromSeq, toSeq, header: header(toSeq, epoch), steps } };
}
function quiet(epoch: string, seq: number, head: number): RunFrame {
  return base(epoch, seq, head);
}

function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state ^ (state >>> 15), 1 | state) + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 7), 61 | t) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

function expectFold(store: RunStore, histories: Map<string, History>): void {
  const epoch = store.epoch;
  const history = epoch === null ? undefined : histories.get(epoch);
  if (epoch === null || !history) throw new Error("no epoch held");
  for (const [id, want] of store.whole() ? fold(history, store.seq, epoch) : []) {
    const got = store.step(id);
    if (got?.changedSeq !== want.changedSeq || got.name !== want.name) {
      throw new Error(`step ${id} at ${epoch}/${store.seq}: ${got?.name} instead of ${want.name}`);
    }
  }
  if (store.header()?.runSeq !== store.seq) throw new Error("the header is of another position");
}

describe("RunStore", () => {
  it(
    "3 equals the ordered fold after 10,000 runs of drops, duplicates, reorders and epochs",
    { timeout: 600_000 },
    () => {
      for (let seed = 1; seed <= 10_000; seed++) {
        const next = random(seed);
        const pick = (n: number): number => Math.floor(next() * n);
        const histories = new Map<string, History>();
        const store = new RunStore(() => clock);
        const seen: RunFrame[] = [];
        const epochs: string[] = [];
        const deliver = (sent: RunFrame): void => {
          // Receipts move on their own clock, so an older state may carry a newer revision.
          const frame = { ...sent, opsRev: sent.opsRev + pick(30) };
          seen.push(frame);
          const before = { epoch: store.epoch, seq: store.seq };
          const effect = store.receive(frame);
          if (before.epoch !== null && store.epoch === before.epoch && store.seq < before.seq) {
            throw new Error(`seed ${seed}: rewound from ${before.seq} to ${store.seq}`);
          }
          if (store.epoch !== before.epoch && store.epoch !== null) {
            if (epochs.includes(store.epoch)) throw new Error(`seed ${seed}: epoch ${store.epoch} came back`);
            epochs.push(store.epoch);
          }
          if (store.epoch !== null) expectFold(store, histories);
          const history = histories.get(frame.epoch);
          if (effect === "resubscribe" && history && store.epoch === frame.epoch && next() < 0.7) {
            deliver(
              store.resumable
                ? delta(history, frame.epoch, store.seq, history.length)
                : snapshot(history, frame.epoch, history.length),
            );
          }
        };
        /** The answer to a query arrives at any time, with any earlier position. */
        const open = (epoch: string, history: History): void => {
          const before = { epoch: store.epoch, seq: store.seq, whole: store.whole() };
          const seq = pick(history.length + 1);
          store.open(header(seq, epoch), next() < 0.5 ? null : [...fold(history, seq, epoch).values()]);
          if (store.seq < before.seq && store.epoch === before.epoch)
            throw new Error(`seed ${seed}: opening rewound from ${before.seq} to ${store.seq}`);
          if (before.whole && (store.seq !== before.seq || store.epoch !== before.epoch))
            throw new Error(`seed ${seed}: opened again`);
          if (store.epoch !== null && !epochs.includes(store.epoch)) epochs.push(store.epoch);
          if (store.epoch !== null) expectFold(store, histories);
        };

        const epochCount = 1 + pick(3);
        for (let e = 0; e < epochCount; e++) {
          const epoch = `e${e}`;
          const history: History = Array.from({ length: pick(4) }, () => STEPS[pick(5)] ?? "a");
          histories.set(epoch, history);
          for (let n = e === 0 ? pick(3) : 0; n > 0; n--) open(epoch, history);
          deliver(snapshot(history, epoch, history.length, e > 0));
          let frames: RunFrame[] = [];
          for (let i = 0; i < 12; i++) {
            const from = history.length;
            for (let k = 1 + pick(3); k > 0; k--) history.push(STEPS[pick(5)] ?? "a");
            const kind = next();
            if (kind < 0.6) frames.push(delta(history, epoch, Math.max(0, from - pick(3)), history.length));
            else if (kind < 0.8) frames.push(snapshot(history, epoch, history.length));
            else frames.push(quiet(epoch, from, history.length));
          }
          frames = frames.filter(() => next() > 0.2).flatMap((frame) => (next() < 0.2 ? [frame, frame] : [frame]));
          for (let i = frames.length - 1; i > 0; i--) {
            const j = Math.max(0, i - pick(4));
            const a = frames[i];
            const b = frames[j];
            if (a && b) [frames[i], frames[j]] = [b, a];
          }
          for (const frame of frames) {
            deliver(frame);
            if (next() < 0.1) open(epoch, history);
            const old = seen[pick(seen.length)];
            if (old && next() < 0.2) deliver(old);
          }
          deliver(delta(history, epoch, Math.min(store.seq, history.length), history.length));
          expect(store.seq).toBe(history.length);
          expect(store.epoch).toBe(epoch);
        }
      }
    },
  );

  const history: History = ["a", "b", "a", "c"];
  function held(seq: number): RunStore {
    clock = 1_000_000;
    const store = new RunStore(() => clock);
    store.receive(snapshot(history, "e0", seq));
    store.tick();
    return store;
  }

  const steps = (seq: number): Step[] => [...fold(history, seq, "e0").values()];
  it("opens with a header, then with steps that are no older, and is unproven until a frame arrives", () => {
    clock = 1_000_000;
    const store = new RunStore(() => clock);
    store.open(header(2, "e0"), null);
    store.tick();
    expect(store.verdict()).toMatchObject({ state: "VERIFYING", reason: null, seq: 2 });
    expect(store.resumable).toBeNull();
    store.open(header(1, "e0"), steps(1));
    expect(store.whole()).toBe(false);
    store.open(header(3, "e0"), steps(3));
    expect(store.resumable).toEqual({ seq: 3, epoch: "e0" });
    store.tick();
    expect(store.verdict().state).toBe("VERIFYING");
    // From now on only the stream changes it.
    store.open(header(4, "e0"), steps(4));
    expect(store.seq).toBe(3);
    store.receive(quiet("e0", 3, 3));
    store.tick();
    expect(store.verdict().state).toBe("LIVE");
  });

  it("takes no delta to a header alone, and a whole run of any history", () => {
    const store = new RunStore(() => clock);
    store.open(header(2, "e0"), null);
    expect(store.receive(delta(history, "e0", 2, 3))).toBe("resubscribe");
    store.receive(snapshot(history, "e0", 1));
    expect(store.whole()).toBe(false);
    store.receive(snapshot(history, "e1", 1));
    expect(store.resumable).toEqual({ seq: 1, epoch: "e1" });
    expect(store.header()?.runSeq).toBe(1);
  });

  it("keeps the time of its opening when the link breaks before a frame", () => {
    clock = 1_000_000;
    const store = new RunStore(() => clock);
    store.open(header(2, "e0"), null);
    store.link(false);
    clock += 5_000;
    expect(store.verdict().state).toBe("OFFLINE");
    expect(store.now()).toBe(1_000_000);
  });

  it("is live after a live frame, at its position", () => {
    expect(held(2).verdict()).toMatchObject({ state: "LIVE", reason: null, seq: 2, asOf: 1_000_000 });
  });

  it("does not apply a delta across a gap and asks once for the missing part", () => {
    const store = held(1);
    expect(store.receive(delta(history, "e0", 2, 4))).toBe("resubscribe");
    expect(store.receive(delta(history, "e0", 3, 4))).toBe("none");
    store.tick();
    expect(store.seq).toBe(1);
    expect(store.verdict()).toMatchObject({ state: "STALE", reason: "GAP" });
    store.receive(delta(history, "e0", 1, 4));
    store.tick();
    expect(store.verdict().state).toBe("LIVE");
  });

  it("takes a restored history only with a reset snapshot, and then nothing of the old one", () => {
    const store = held(4);
    expect(store.receive(quiet("e1", 2, 2))).toBe("resubscribe");
    store.tick();
    expect(store.verdict()).toMatchObject({ state: "STALE", reason: "EPOCH_CHANGED" });
    store.receive(snapshot(history, "e1", 2, true));
    store.receive(delta(history, "e0", 2, 4));
    store.tick();
    expect(store.seq).toBe(2);
    expect(store.restoredTo()).toBe(2);
    expect(store.verdict().state).toBe("LIVE");
  });

  it("7 learns from a quiet frame that the last change was lost, and asks once from where it is", () => {
    const store = new RunStore(() => clock);
    const history = ["a", "b", "c"];
    store.receive(snapshot(history, "e0", 2));
    expect(store.receive(quiet("e0", 3, 3))).toBe("resubscribe");
    expect(store.receive(quiet("e0", 3, 3))).toBe("none");
    store.tick();
    expect([store.seq, store.verdict().state, store.verdict().reason]).toEqual([2, "STALE", "GAP"]);
    store.receive(delta(history, "e0", 2, 3));
    store.tick();
    expect([store.seq, store.verdict().state]).toEqual([3, "LIVE"]);
  });

  it("is stale when it stays behind the head for two seconds", () => {
    const store = held(2);
    store.receive(quiet("e0", 2, 4));
    clock += 1_900;
    store.tick();
    expect(store.verdict().state).toBe("LIVE");
    clock += 200;
    expect(store.tick()).toBe("resubscribe");
    expect(store.tick()).toBe("none");
    expect(store.verdict()).toMatchObject({ state: "STALE", reason: "BEHIND" });
    expect(store.frozen()).toBe(true);
    expect(store.now()).toBe(1_000_000);
  });

  it("is offline when the link is down or nothing came for 20 s, and unproven after the return", () => {
    const store = held(2);
    store.link(false);
    expect(store.verdict()).toMatchObject({ state: "OFFLINE", reason: "CONNECTION_LOST" });
    store.link(true);
    expect(store.verdict().state).toBe("VERIFYING");
    store.receive(quiet("e0", 2, 2));
    store.tick();
    expect(store.verdict().state).toBe("LIVE");
    clock += 20_001;
    store.tick();
    expect(store.verdict().state).toBe("OFFLINE");
  });

  it("passes on the server's own verdict", () => {
    const store = held(2);
    store.receive({ ...quiet("e0", 2, 2), sync: "STALE", reason: "STORE_DOWN" });
    store.tick();
    expect(store.verdict()).toMatchObject({ state: "STALE", reason: "STORE_DOWN" });
  });

  it("takes operational fields of the same position when their revision is newer", () => {
    const store = held(2);
    const frame = snapshot(history, "e0", 2);
    const ops = {
      ...frame,
      opsRev: 9,
      snapshot: { header: header(2, "e0"), steps: [{ ...step("a", 1, "e0"), pendingRetry: true }] },
    };
    store.receive(ops);
    expect(store.step("a")?.pendingRetry).toBe(true);
    store.receive(frame);
    expect(store.step("a")?.pendingRetry).toBe(true);
  });

  it("drops an older state even when its operational revision is newer", () => {
    const store = held(3);
    store.receive({ ...snapshot(history, "e0", 1), opsRev: 99 });
    store.receive({ ...delta(history, "e0", 0, 2), opsRev: 99 });
    expect(store.seq).toBe(3);
    expect(store.header()?.runSeq).toBe(3);
    expect(store.rewindsDropped).toBe(1);
  });

  it("keeps the identity of steps that did not move", () => {
    const store = held(3);
    const before = store.step("b");
    store.receive(snapshot(history, "e0", 4));
    expect(store.step("b")).toBe(before);
    expect(store.step("c")?.changedSeq).toBe(4);
  });

  it("uses the server's clock", () => {
    clock = 1_000_000;
    const store = new RunStore(() => clock);
    store.receive({ ...snapshot(history, "e0", 2), asOf: clock + 5_000 });
    clock += 100;
    expect(store.now()).toBe(1_005_100);
  });
});

function at(stepId: string, status: Step["status"], changedSeq: number): Step {
  return { ...step(stepId, changedSeq, "e"), status, substatus: null };
}

describe("the subscriptions of the graph", () => {
  it("reports the changed steps of one moment together, and updates the tally", async () => {
    const store = new RunStore(() => clock);
    const told: string[][] = [];
    store.subscribeSteps((changed) => told.push([...changed]));
    store.receive({
      ...base("e", 1, 1),
      snapshot: { header: header(1, "e"), steps: [at("a", "PENDING", 1), at("b", "PENDING", 1)] },
    });
    await Promise.resolve();
    const before = store.tally();
    expect(before).toEqual({ failed: 0, waiting: 0, running: 0, pending: 2, skipped: 0, ok: 0 });
    store.receive({
      ...base("e", 2, 2),
      delta: { fromSeq: 1, toSeq: 2, header: header(2, "e"), steps: [at("a", "RUNNING", 2)] },
    });
    store.receive({
      ...base("e", 3, 3),
      delta: { fromSeq: 2, toSeq: 3, header: header(3, "e"), steps: [at("a", "FAILED", 3), at("b", "SUCCESS", 3)] },
    });
    await Promise.resolve();
    expect(told).toEqual([
      ["a", "b"],
      ["a", "b"],
    ]);
    expect(store.tally()).toEqual({ failed: 1, waiting: 0, running: 0, pending: 0, skipped: 0, ok: 1 });
    expect(before.pending).toBe(2);
    const same = store.tally();
    store.receive(base("e", 3, 3));
    await Promise.resolve();
    expect(store.tally()).toBe(same);
  });
});
