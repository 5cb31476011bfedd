import { afterEach, expect, it, vi } from "vitest";
import { ViewerDocument } from "./gen/graphql";
import { ask, request } from "./request";

let sent = 0;
function answering(): void {
  sent = 0;
  vi.stubGlobal("fetch", () => Promise.resolve(new Response(JSON.stringify({ data: { n: ++sent } }))));
}
afterEach(() => vi.unstubAllGlobals());

it("gives what was asked for ahead to the first request of the same, and to nobody after that", async () => {
  answering();
  ask(ViewerDocument, {});
  ask(ViewerDocument, {});
  expect(sent).toBe(1);
  expect(await request(ViewerDocument, {})).toEqual({ n: 1 });
  expect(await request(ViewerDocument, {})).toEqual({ n: 2 });
});

it("forgets an answer that nobody wanted, and one that did not come", async () => {
  vi.useFakeTimers();
  answering();
  ask(ViewerDocument, {});
  await vi.advanceTimersByTimeAsync(31_000);
  expect(await request(ViewerDocument, {})).toEqual({ n: 2 });
  vi.useRealTimers();
  vi.stubGlobal("fetch", () => Promise.reject(new TypeError("refused")));
  ask(ViewerDocument, {});
  await new Promise((resolve) => setTimeout(resolve));
  answering();
  expect(await request(ViewerDocument, {})).toEqual({ n: 1 });
});
