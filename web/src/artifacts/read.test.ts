import { afterEach, expect, it, vi } from "vitest";
import { ArtifactError, readPart } from "./read";

function answers(body: BodyInit | null, init: ResponseInit): void {
  vi.stubGlobal(
    "fetch",
    vi.fn(() => Promise.resolve(new Response(body, init))),
  );
}

afterEach(() => vi.unstubAllGlobals());

const signal = new AbortController().signal;

it("reads no more than it asked for, whatever the server sends", async () => {
  answers("x".repeat(100_000), { status: 200 });
  const read = await readPart("/artifacts/a", 1_000, signal);
  expect([read.text.length, read.whole]).toEqual([1_000, false]);
  expect(vi.mocked(fetch).mock.calls[0]?.[1]?.headers).toEqual({ Range: "bytes=0-999" });
});

it("knows whether the range was the whole file, and leaves out a cut character", async () => {
  answers("abc", { status: 206, headers: { "Content-Range": "bytes 0-2/3" } });
  expect(await readPart("/a", 10, signal)).toEqual({ text: "abc", whole: true, binary: false });
  answers(new Uint8Array([0x61, 0xe2, 0x82]), { status: 206, headers: { "Content-Range": "bytes 0-2/9" } });
  expect(await readPart("/a", 3, signal)).toEqual({ text: "a", whole: false, binary: false });
  answers(null, { status: 416 });
  expect(await readPart("/a", 3, signal)).toEqual({ text: "", whole: true, binary: false });
  answers("a\0b", { status: 200 });
  expect((await readPart("/a", 9, signal)).binary).toBe(true);
});

it("tells why there is no content", async () => {
  answers(
    JSON.stringify({ code: "ARTIFACT_REMOVED", message: "gone", artifact: { expiresAt: "2026-11-01T00:00:00Z" } }),
    {
      status: 410,
    },
  );
  const error = await readPart("/a", 9, signal).catch((cause: unknown) => cause);
  expect(error).toBeInstanceOf(ArtifactError);
  expect(error).toMatchObject({ code: "ARTIFACT_REMOVED", expiresAt: "2026-11-01T00:00:00Z" });
  answers("<html>", { status: 502 });
  await expect(readPart("/a", 9, signal)).rejects.toMatchObject({ message: "HTTP 502" });
});
