import { describe, expect, it } from "vitest";
import type { LogLine } from "../api/model";
import { LogStore, type Source } from "./store";

function line(no: number): LogLine {
  return { no, at: 0, stream: "stdout", engineAttemptId: 1, text: `line ${no}` };
}

function server(total: number): { asked: number[]; fetch: Source } {
  const asked: number[] = [];
  return {
    asked,
    fetch: {
      begin: () => Promise.resolve({ totalLines: total, missing: null, errorLine: total }),
      page: (from, first) => {
        asked.push(from);
        const count = Math.max(0, Math.min(first, total - from + 1));
        return Promise.resolve({
          lines: Array.from({ length: count }, (_, i) => line(from + i)),
          totalLines: total,
          missing: null,
        });
      },
    },
  };
}

describe("LogStore", () => {
  it("fetches only the windows that are looked at, each once", async () => {
    const { asked, fetch } = server(1_000_000);
    const log = new LogStore(fetch);
    await log.ensure(1, 80);
    await log.ensure(500_100, 500_180);
    await log.ensure(500_120, 500_200);
    expect(asked).toEqual([1, 500_001]);
    expect(log.total).toBe(1_000_000);
    expect(log.line(500_150)?.text).toBe("line 500150");
    expect(log.line(42_000)).toBeUndefined();
  });

  it("20 knows the length and the error's line before it holds a line", async () => {
    const { asked, fetch } = server(1_000_000);
    const log = new LogStore(fetch);
    await log.begin();
    expect([log.total, log.errorLine, asked]).toEqual([1_000_000, 1_000_000, []]);
    const broken = new LogStore({ ...fetch, begin: () => Promise.reject(new Error("no")) });
    await broken.begin();
    expect([broken.total, broken.error]).toEqual([null, new Error("no")]);
  });

  it("forgets windows that were not used for long", async () => {
    const log = new LogStore(server(1_000_000).fetch);
    await log.ensure(1, 1);
    for (let i = 1; i <= 40; i++) await log.ensure(i * 1_000 + 1, i * 1_000 + 1);
    expect(log.line(1)).toBeUndefined();
    expect(log.line(40_001)).toBeDefined();
  });

  it("grows with printed lines, and ignores duplicates", async () => {
    const log = new LogStore(server(3).fetch);
    await log.ensure(1, 3);
    log.append({ lines: [line(3), line(4), line(5)], totalLines: 5, missing: null }, false);
    log.append({ lines: [line(5)], totalLines: 5, missing: null }, true);
    expect([log.total, log.line(4)?.text, log.complete]).toEqual([5, "line 4", true]);
  });

  it("says that the order of lines is not known when two streams were read", async () => {
    const log = new LogStore(server(2).fetch);
    await log.ensure(1, 2);
    expect(log.unordered).toBe(false);
    log.append({ lines: [{ ...line(3), stream: "stderr" }], totalLines: 3, missing: null }, false);
    expect(log.unordered).toBe(true);
  });

  it("asks once for a window whose lines were dropped, also when more of them go", async () => {
    const missing = { from: 1_501, to: 9_500 };
    const kept = (no: number): boolean => no < missing.from || no >= missing.to;
    const asked: number[] = [];
    const page = (from: number, first: number) => {
      asked.push(from);
      const numbers = Array.from({ length: first }, (_, i) => from + i).filter(kept);
      return Promise.resolve({ lines: numbers.map(line), totalLines: 20_000, missing });
    };
    const log = new LogStore({ begin: () => Promise.resolve({ totalLines: 20_000, missing, errorLine: null }), page });
    await log.begin();
    for (let i = 0; i < 2; i++) {
      await log.ensure(1_400, 1_600);
      await log.ensure(9_400, 9_600);
    }
    expect(asked).toEqual([1_001, 9_001]);
    expect([log.line(1_500)?.no, log.line(1_501), log.line(9_500)?.no]).toEqual([1_500, undefined, 9_500]);
    log.append({ lines: [line(20_001)], totalLines: 20_001, missing: { from: 1_501, to: 9_900 } }, false);
    log.append({ lines: [], totalLines: 20_001, missing }, false);
    expect(log.missing?.to).toBe(9_900);
    await log.ensure(9_900, 10_000);
    expect(asked).toHaveLength(2);
  });

  it("keeps the reason why nothing came", async () => {
    const log = new LogStore({
      begin: () => Promise.reject(new Error("no")),
      page: () => Promise.reject(new Error("no")),
    });
    await log.ensure(1, 10);
    expect(log.error).toEqual(new Error("no"));
    expect(log.total).toBeNull();
  });
});
