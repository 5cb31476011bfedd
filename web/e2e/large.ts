// Runs of thousands of steps, and what a page does while they move.
import { setTimeout } from "node:timers/promises";
import { type CDPSession, expect, type Page, type Request } from "@playwright/test";
import type { PlanStep } from "./page";

/**
 * Layers of `wide` steps that sleep, each behind one or two of the layer before: the shape of a large dbt project.
 * Behind a gate nothing begins before it.
 */
export function layered(count: number, wide: number, ms: number, gateMs = 0): PlanStep[] {
  const gate: PlanStep[] =
    gateMs > 0 ? [{ stepId: "gate", type: "SLEEP", inputs: { ms: gateMs }, timeout: "30m" }] : [];
  const steps = Array.from({ length: count - gate.length }, (_, i): PlanStep => {
    const near = i - wide + (((i * 7) % 5) - 2);
    const far = i - wide - ((i * 13) % wide);
    const before = i < wide ? [] : [...new Set(i % 3 === 0 ? [near, far] : [near])].filter((n) => n >= 0 && n < i);
    const dependsOn = before.length > 0 ? before.map((n) => `model_${n}`) : gate.map(({ stepId }) => stepId);
    return { stepId: `model_${i}`, type: "SLEEP", dependsOn, inputs: { ms: ms + ((i * 37) % ms) } };
  });
  return [...gate, ...steps];
}

interface Sent {
  id: string;
  type: string;
  payload: { data: { runUpdates?: Update } };
}
interface Update {
  runSeq: number;
  snapshot: ({ runSeq: number; steps: MovedStep[] } & Record<string, unknown>) | null;
  delta: { fromSeq: number; toSeq: number; header: Record<string, unknown>; steps: MovedStep[] } | null;
  [field: string]: unknown;
}
interface MovedStep {
  stepId: string;
  status: string;
  changedSeq: number;
  [field: string]: unknown;
}

/** The last update, with what the page opened with and all updates made of it. */
function folded(opened: NonNullable<Update["snapshot"]>, updates: readonly Update[]): Update | null {
  const steps = new Map(opened.steps.map((step) => [step.stepId, step]));
  for (const { delta } of updates) for (const step of delta?.steps ?? []) steps.set(step.stepId, step);
  const last = updates.at(-1);
  const header = updates.findLast(({ delta }) => delta)?.delta?.header ?? {};
  return last ? { ...last, snapshot: { ...opened, ...header, runSeq: last.runSeq, steps: [...steps.values()] } } : null;
}

function ofOpening(request: Request): boolean {
  return /query RunWhole\b/.test(request.postData() ?? "");
}

/**
 * What is added to a page's stream: `move` sends an update in which the next `changed` steps begin or succeed, once it
 * is `ready`.
 */
export interface Feed {
  ready: () => boolean;
  move: (changed: number) => void;
}

/** Lets the page's stream come through, and adds to it. Call it before the page opens. */
export async function feed(page: Page): Promise<Feed> {
  let send: ((update: Update) => void) | null = null;
  let latest: Update | null = null;
  let said: Update[] = [];
  let next = 0;
  let opened: Update["snapshot"] = null;
  page.on("request", (request) => {
    if (ofOpening(request)) [latest, opened, said] = [null, null, []];
  });
  page.on("response", (response) => {
    if (!ofOpening(response.request())) return;
    // A page that left before its answer came asks no more.
    void response.json().then(
      ({ data }: { data: { run: Update["snapshot"] } }) => (opened = data.run),
      () => {},
    );
  });
  await page.routeWebSocket(/\/graphql/, (socket) => {
    const server = socket.connectToServer();
    socket.onMessage((message) => server.send(message));
    server.onMessage((message) => {
      socket.send(message);
      // What the server sends is what the page is built for.
      const frame = JSON.parse(String(message)) as Sent;
      const update = frame.type === "next" ? frame.payload.data.runUpdates : undefined;
      if (!update) return;
      said.push(update);
      if (update.snapshot) latest = update;
      // The page may have subscribed again; it listens to the last subscription.
      send = (own) => socket.send(JSON.stringify({ ...frame, payload: { data: { runUpdates: own } } }));
    });
  });
  // The page opened with a query, and went on with the stream.
  const held = (): Update | null => (latest ??= opened && folded(opened, said));
  return {
    ready: () => held() !== null && send !== null,
    move: (changed) => {
      const before = held();
      if (!before?.snapshot || !send) throw new Error("the page has no state of a run yet");
      const { steps, ...header } = before.snapshot;
      const [fromSeq, toSeq] = [before.runSeq, before.runSeq + changed];
      const now = new Date().toISOString();
      const moved = Array.from({ length: changed }, (_, i): MovedStep => {
        const at = next++ % steps.length;
        const was = steps[at] ?? { stepId: "", status: "PENDING", changedSeq: 0 };
        const status = was.status === "RUNNING" ? "SUCCESS" : "RUNNING";
        const step = {
          ...was,
          status,
          statusRaw: status,
          startedAt: now,
          completedAt: status === "SUCCESS" ? now : null,
          changedSeq: fromSeq + i + 1,
        };
        steps[at] = step;
        return step;
      });
      latest = { ...before, runSeq: toSeq, headSeq: toSeq, asOf: now, snapshot: { ...header, runSeq: toSeq, steps } };
      send({
        ...latest,
        snapshot: null,
        delta: { fromSeq, toSeq, header: { ...header, runSeq: toSeq }, steps: moved },
      });
    },
  };
}

/**
 * The time that the main thread has worked, in milliseconds, without its waits and without other processes.
 */
export async function workOf(cdp: CDPSession): Promise<number> {
  await cdp.send("Performance.enable");
  const { metrics } = await cdp.send("Performance.getMetrics");
  return (metrics.find(({ name }) => name === "ThreadTime")?.value ?? 0) * 1_000;
}

/**
 * Milliseconds of the main thread's own time each second, while `during` goes on. Nothing else watches meanwhile: a
 * page that is asked for every frame makes sixty of them.
 */
export async function busyOf(cdp: CDPSession, during: () => Promise<void>): Promise<number> {
  const [before, begun] = [await workOf(cdp), Date.now()];
  await during();
  return (((await workOf(cdp)) - before) / (Date.now() - begun)) * 1_000;
}

/**
 * The time from frame to frame while `during` goes on, and the longest task of the main thread, 0 when none took 50 ms.
 */
export async function framesOf(
  page: Page,
  during: () => Promise<void>,
): Promise<{ frames: readonly number[]; longest: number }> {
  const seen = await page.evaluateHandle(() => {
    const seen = { longest: 0, frames: [] as number[], on: true };
    new PerformanceObserver((list) => {
      for (const { duration } of list.getEntries()) seen.longest = Math.max(seen.longest, duration);
    }).observe({ type: "longtask" });
    let last = performance.now();
    const frame = (now: number): void => {
      seen.frames.push(now - last);
      last = now;
      if (seen.on) requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
    return seen;
  });
  await during();
  const { longest, frames } = await seen.evaluate((seen) => {
    seen.on = false;
    return { longest: seen.longest, frames: seen.frames };
  });
  return { longest, frames: frames.slice(1) };
}

/** Ten updates a second that change twenty steps each. */
export async function tenASecond({ ready, move }: Feed, seconds: number): Promise<void> {
  // What the page opened with may be on its way to here still.
  await expect.poll(ready).toBe(true);
  const began = Date.now();
  for (let i = 1; i <= seconds * 10; i++) {
    move(20);
    await setTimeout(began + i * 100 - Date.now());
  }
}

export function quantile(values: readonly number[], q: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] ?? 0;
}
