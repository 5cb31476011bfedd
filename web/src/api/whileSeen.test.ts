import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { afterAbsence, whileSeen } from "./whileSeen";

const page = Object.assign(new EventTarget(), { hidden: false });

function turn(state: "visible" | "hidden"): void {
  page.hidden = state === "hidden";
  page.dispatchEvent(new Event("visibilitychange"));
}

beforeEach(() => {
  vi.useFakeTimers();
  page.hidden = false;
  vi.stubGlobal("document", page);
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

it("asks nothing while nobody looks, and at once when somebody does again", async () => {
  const ask = vi.fn();
  const stop = whileSeen(1_000, ask);
  await vi.advanceTimersByTimeAsync(2_000);
  expect(ask).toHaveBeenCalledTimes(2);
  turn("hidden");
  await vi.advanceTimersByTimeAsync(60_000);
  expect(ask).toHaveBeenCalledTimes(2);
  turn("visible");
  expect(ask).toHaveBeenCalledTimes(3);
  turn("hidden");
  turn("visible");
  expect(ask).toHaveBeenCalledTimes(3);
  stop();
  await vi.advanceTimersByTimeAsync(5_000);
  turn("visible");
  expect(ask).toHaveBeenCalledTimes(3);
});

it("calls for the first time after the given delay, visible or not", async () => {
  const ask = vi.fn();
  turn("hidden");
  const stop = whileSeen(1_000, ask, 300);
  await vi.advanceTimersByTimeAsync(299);
  expect(ask).not.toHaveBeenCalled();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(ask).toHaveBeenCalledTimes(1);
  stop();
  whileSeen(1_000, ask, 300)();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(ask).toHaveBeenCalledTimes(1);
  turn("visible");
});

it("does not call again while a call is pending, and continues after one that failed", async () => {
  const answers: ((error?: Error) => void)[] = [];
  const ask = vi.fn(
    () => new Promise<void>((resolve, reject) => answers.push((error) => (error ? reject(error) : resolve()))),
  );
  const stop = whileSeen(1_000, ask, 0);
  await vi.advanceTimersByTimeAsync(10_000);
  turn("hidden");
  turn("visible");
  expect(ask).toHaveBeenCalledTimes(1);
  answers[0]?.();
  await vi.advanceTimersByTimeAsync(1_000);
  expect(ask).toHaveBeenCalledTimes(2);
  answers[1]?.(new Error("no"));
  await vi.advanceTimersByTimeAsync(1_000);
  expect(ask).toHaveBeenCalledTimes(3);
  stop();
});

/** Time goes by and no timer fires, as while the machine sleeps or the browser holds those of a hidden page back. */
function pass(ms: number): void {
  vi.setSystemTime(Date.now() + ms);
}

it("takes a sleep of the machine for an absence, and a long time in a hidden page when it is seen again", async () => {
  const back = vi.fn();
  const stop = afterAbsence(30_000, back);
  await vi.advanceTimersByTimeAsync(120_000);
  expect(back).not.toHaveBeenCalled();
  pass(31_000);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(back).toHaveBeenCalledTimes(1);
  turn("hidden");
  pass(10_000);
  turn("visible");
  expect(back).toHaveBeenCalledTimes(1);
  turn("hidden");
  pass(40_000);
  turn("visible");
  expect(back).toHaveBeenCalledTimes(2);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(back).toHaveBeenCalledTimes(2);
  stop();
});

it("takes the timers of a hidden page, which may be a minute apart, for nothing", async () => {
  const back = vi.fn();
  const stop = afterAbsence(30_000, back);
  turn("hidden");
  for (let minute = 0; minute < 5; minute++) {
    pass(60_000);
    await vi.advanceTimersByTimeAsync(1_000);
  }
  expect(back).not.toHaveBeenCalled();
  turn("visible");
  expect(back).toHaveBeenCalledTimes(1);
  stop();
  pass(60_000);
  turn("hidden");
  turn("visible");
  await vi.advanceTimersByTimeAsync(60_000);
  expect(back).toHaveBeenCalledTimes(1);
});
