import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { whileSeen } from "./whileSeen";

const page = Object.assign(new EventTarget(), { visibilityState: "visible" });

function turn(state: "visible" | "hidden"): void {
  page.visibilityState = state;
  page.dispatchEvent(new Event("visibilitychange"));
}

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("document", page);
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

it("asks nothing while nobody looks, and at once when somebody does again", () => {
  const ask = vi.fn();
  const stop = whileSeen(1_000, ask);
  vi.advanceTimersByTime(2_000);
  expect(ask).toHaveBeenCalledTimes(2);
  turn("hidden");
  vi.advanceTimersByTime(60_000);
  expect(ask).toHaveBeenCalledTimes(2);
  turn("visible");
  expect(ask).toHaveBeenCalledTimes(3);
  turn("hidden");
  turn("visible");
  expect(ask).toHaveBeenCalledTimes(3);
  stop();
  vi.advanceTimersByTime(5_000);
  turn("visible");
  expect(ask).toHaveBeenCalledTimes(3);
});
