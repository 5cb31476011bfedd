import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { TypedDocumentString } from "./gen/graphql";

type Live = typeof import("./live");

/** What a connection meets: a server that answers, one that is stopped by SIGSTOP, or a network without sockets. */
let server: "answers" | "frozen" | "refuses" = "answers";
let sockets: FakeSocket[] = [];

class FakeSocket {
  static readonly CONNECTING = 0;
  static readonly OPEN = 1;
  static readonly CLOSING = 2;
  static readonly CLOSED = 3;
  readyState = FakeSocket.CONNECTING;
  subscribed: unknown[] = [];
  onopen: (() => void) | null = null;
  onmessage: ((event: { data: string }) => void) | null = null;
  onclose: ((event: { code: number; reason: string }) => void) | null = null;
  onerror: (() => void) | null = null;

  constructor() {
    sockets.push(this);
    setTimeout(() => {
      if (server === "refuses") {
        this.readyState = FakeSocket.CLOSED;
        this.onclose?.({ code: 1006, reason: "" });
      } else if (server === "answers") {
        this.readyState = FakeSocket.OPEN;
        this.onopen?.();
      }
    }, 1);
  }

  send(text: string): void {
    if (server !== "answers") return;
    const message = JSON.parse(text) as { type: string; payload?: { variables: unknown } };
    if (message.type === "subscribe") this.subscribed.push(message.payload?.variables);
    const answer = { connection_init: "connection_ack", ping: "pong" }[message.type];
    if (answer) setTimeout(() => this.onmessage?.({ data: JSON.stringify({ type: answer }) }), 1);
  }

  close(): void {
    this.readyState = FakeSocket.CLOSED;
  }
}

const document = new TypedDocumentString<unknown, { after: number }>(
  "subscription S($after: Int) { a(after: $after) }",
);

let live: Live;
/** When the link was lost, in the time of the test; null while it is open. */
let lostAt: number | null;

beforeEach(async () => {
  vi.useFakeTimers();
  vi.resetModules();
  vi.stubGlobal("WebSocket", FakeSocket);
  vi.stubGlobal("location", { protocol: "http:", host: "dvt" });
  vi.stubGlobal("addEventListener", vi.fn());
  vi.stubGlobal("removeEventListener", vi.fn());
  server = "answers";
  sockets = [];
  lostAt = null;
  live = await import("./live");
  live.onLink(() => {
    if (live.linkState().link === "open") lostAt = null;
    else lostAt ??= Date.now();
  });
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

it("notices a frozen server within 15 s, and continues on another one from where it was", async () => {
  const variables = { after: 0 };
  const stop = live.subscribe(document, variables, { next: vi.fn(), end: vi.fn() });
  await vi.advanceTimersByTimeAsync(60_000);
  expect(live.linkState().link).toBe("open");
  expect(sockets).toHaveLength(1);
  variables.after = 7;
  server = "frozen";
  const froze = Date.now();
  await vi.advanceTimersByTimeAsync(15_000);
  expect(lostAt, "the loss of the link").not.toBeNull();
  expect((lostAt ?? 0) - froze).toBeLessThanOrEqual(10_000);
  server = "answers"; // the balancer has found the frozen server and sends the next connection to another one
  await vi.advanceTimersByTimeAsync(30_000);
  expect(live.linkState().link).toBe("open");
  expect(sockets.at(-1)?.subscribed).toEqual([{ after: 7 }]);
  stop();
});

it("gives up a handshake that nobody answers, and stays with sockets, because they worked before", async () => {
  const fetched = vi.fn();
  vi.stubGlobal("fetch", fetched);
  const stop = live.subscribe(document, { after: 0 }, { next: vi.fn(), end: vi.fn() });
  await vi.advanceTimersByTimeAsync(100);
  server = "frozen";
  await vi.advanceTimersByTimeAsync(120_000);
  expect(sockets.length).toBeGreaterThan(5);
  server = "answers";
  await vi.advanceTimersByTimeAsync(30_000);
  expect(live.linkState().link).toBe("open");
  expect(fetched).not.toHaveBeenCalled();
  stop();
});

it("ends an event stream that brings not even a comment for 15 s", async () => {
  server = "refuses";
  live.subscribe(document, { after: 0 }, { next: vi.fn(), end: vi.fn() });
  await vi.advanceTimersByTimeAsync(60_000);
  let out: ReadableStreamDefaultController<Uint8Array> | undefined;
  vi.stubGlobal("fetch", (_: string, init: RequestInit) => {
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        out = controller;
        init.signal?.addEventListener("abort", () => controller.error(new Error("aborted")));
      },
    });
    return Promise.resolve(new Response(body, { headers: { "content-type": "text/event-stream" } }));
  });
  const bytes = new TextEncoder();
  const next = vi.fn();
  const end = vi.fn();
  live.subscribe(document, { after: 0 }, { next, end });
  await vi.dynamicImportSettled(); // the code of event streams is loaded now
  await vi.advanceTimersByTimeAsync(10);
  out?.enqueue(bytes.encode('event: next\ndata: {"data":{"a":1}}\n\n'));
  for (let comments = 0; comments < 6; comments += 1) {
    await vi.advanceTimersByTimeAsync(5_000);
    out?.enqueue(bytes.encode(":\n\n"));
  }
  expect(next).toHaveBeenCalledWith({ a: 1 });
  expect(live.linkState().link).toBe("open");
  expect(end).not.toHaveBeenCalled();
  const froze = Date.now();
  await vi.advanceTimersByTimeAsync(15_000);
  expect(lostAt, "the loss of the link").not.toBeNull();
  expect((lostAt ?? 0) - froze).toBeLessThanOrEqual(15_000);
  expect(end).toHaveBeenCalledWith(expect.objectContaining({ code: "NETWORK" }));
});
