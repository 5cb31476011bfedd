import { afterEach, expect, it, vi } from "vitest";
import { RunsDocument, ViewerDocument } from "./gen/graphql";
import { prefetch, request } from "./request";

let sent = 0;
function answering(): void {
  sent = 0;
  vi.stubGlobal("fetch", () => Promise.resolve(new Response(JSON.stringify({ data: { n: ++sent } }))));
}
afterEach(() => vi.unstubAllGlobals());

it("gives a prefetched answer to the first request for it, and to no other", async () => {
  answering();
  prefetch(ViewerDocument, {});
  prefetch(ViewerDocument, {});
  expect(sent).toBe(1);
  expect(await request(ViewerDocument, {})).toEqual({ n: 1 });
  expect(await request(ViewerDocument, {})).toEqual({ n: 2 });
});

it("waits a minute for an answer that does not come, longer for a long text, and says that there is none", async () => {
  const late = new AbortController();
  const waits = vi.spyOn(AbortSignal, "timeout").mockReturnValue(late.signal);
  vi.stubGlobal(
    "fetch",
    (_: string, { signal }: RequestInit) =>
      new Promise((_, fail) => signal?.addEventListener("abort", () => fail(signal.reason))),
  );
  const own = new AbortController();
  const asked = request(ViewerDocument, {}, own.signal);
  late.abort(new DOMException("late", "TimeoutError"));
  await expect(asked).rejects.toMatchObject({ code: "NETWORK" });
  expect(waits.mock.calls[0]?.[0]).toBeLessThan(61_000);
  void request(RunsDocument, { first: 1, after: "x".repeat(2_000_000), filter: {}, orderBy: "CREATED_DESC" }).catch(
    () => {},
  );
  expect(waits.mock.calls[1]?.[0]).toBeGreaterThan(160_000);
  waits.mockRestore();
});

it("forgets a prefetched answer that was not used, and one that failed", async () => {
  vi.useFakeTimers();
  answering();
  prefetch(ViewerDocument, {});
  await vi.advanceTimersByTimeAsync(31_000);
  expect(await request(ViewerDocument, {})).toEqual({ n: 2 });
  vi.useRealTimers();
  vi.stubGlobal("fetch", () => Promise.reject(new TypeError("refused")));
  prefetch(ViewerDocument, {});
  await new Promise((resolve) => setTimeout(resolve));
  answering();
  expect(await request(ViewerDocument, {})).toEqual({ n: 1 });
});
