// Runs before each file of component tests.
import { cleanup, configure } from "@testing-library/react";
import { afterEach, vi } from "vitest";

// A busy machine may take seconds for what takes a moment elsewhere, in ms. Only a test that fails waits this long.
const PATIENCE = 30_000;
configure({ asyncUtilTimeout: PATIENCE });
const waitFor = vi.waitFor.bind(vi);
vi.waitFor = (callback, options = PATIENCE) => waitFor(callback, options);

/** A connection that is neither made nor refused. A refused one would say after a moment that dvt cannot be reached. */
class Connecting extends EventTarget {
  static readonly OPEN = 1;
  readonly readyState = 0;
  close(): void {}
}
// Where the live updates are loaded with the test, they keep the class that they find.
Object.assign(globalThis, { WebSocket: Connecting });

afterEach(() => {
  cleanup();
  vi.useRealTimers();
  vi.unstubAllGlobals();
  localStorage.clear();
  sessionStorage.clear();
});
