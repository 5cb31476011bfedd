import { describe, expect, it } from "vitest";
import type { RunRow } from "../api/model";
import { appendPage, applyFrame as apply, EMPTY, type ListFrame, type ListState, reread, showWaiting } from "./list";

function run(runId: string, createdAt: number, runSeq = 1, opsRev = 1): RunRow {
  // The list reads only these fields of a row.
  return { runId, createdAt, runSeq, opsRev, storeEpoch: "e" } as RunRow;
}
function applyFrame(state: ListState, frame: Omit<ListFrame, "first">, most = 50): ListState {
  return apply(state, { ...frame, first: most });
}
const first = applyFrame(EMPTY, { reset: true, runs: [run("c", 3), run("b", 2)], removed: [] });

describe("the runs page", () => {
  it("shows the first page at once, newest first", () => {
    expect(first.rows.map((row) => row.run.runId)).toEqual(["c", "b"]);
    expect(first.waiting).toEqual([]);
  });

  it("lets new runs wait until they are asked for", () => {
    const next = applyFrame(first, { reset: false, runs: [run("d", 4)], removed: [] });
    expect(next.rows.map((row) => row.run.runId)).toEqual(["c", "b"]);
    expect(next.waiting.map((row) => row.runId)).toEqual(["d"]);
    const updated = applyFrame(next, { reset: false, runs: [run("d", 4, 5)], removed: [] });
    expect(updated.waiting.map((row) => row.runSeq)).toEqual([5]);
    expect(showWaiting(updated).rows.map((row) => row.run.runId)).toEqual(["d", "c", "b"]);
  });

  it("changes rows in place and never back", () => {
    const moved = applyFrame(first, { reset: false, runs: [run("b", 2, 7)], removed: [] });
    const late = applyFrame(moved, { reset: false, runs: [run("b", 2, 5, 9)], removed: [] });
    expect(late.rows.map((row) => row.run.runSeq)).toEqual([1, 7]);
  });

  it("keeps a row that no longer matches, marked", () => {
    const gone = applyFrame(first, { reset: false, runs: [], removed: ["c"] });
    expect(gone.rows.map((row) => row.left)).toEqual([true, false]);
    const back = applyFrame(gone, { reset: false, runs: [run("c", 3, 2)], removed: [] });
    expect(back.rows.map((row) => row.left)).toEqual([false, false]);
  });

  it("marks rows that a new first page lacks, but not those of older pages", () => {
    const longer = appendPage(first, [run("a", 1)], null, false);
    const reset = applyFrame(longer, { reset: true, runs: [run("d", 4), run("b", 2)], removed: [] }, 2);
    expect(reset.rows.map((row) => [row.run.runId, row.left])).toEqual([
      ["c", true],
      ["b", false],
      ["a", false],
    ]);
    expect(reset.waiting.map((row) => row.runId)).toEqual(["d"]);
  });

  it("adds a page without repeats", () => {
    const page = appendPage(first, [run("b", 2), run("a", 1)], "cursor", true);
    expect(page.rows.map((row) => row.run.runId)).toEqual(["c", "b", "a"]);
    expect([page.endCursor, page.hasMore]).toEqual(["cursor", true]);
  });

  it("tells rows that newer ones pushed out from rows that no longer match", () => {
    const full = applyFrame(EMPTY, { reset: true, runs: [run("c", 3), run("b", 2)], removed: [] }, 2);
    const pushed = applyFrame(full, { reset: false, runs: [run("d", 4)], removed: ["b"] }, 2);
    expect(pushed.rows.map((row) => [row.run.runId, row.left])).toEqual([
      ["c", false],
      ["b", false],
    ]);
    const gone = applyFrame(pushed, { reset: false, runs: [run("b", 2)], removed: ["c"] }, 2);
    expect(gone.rows.map((row) => [row.run.runId, row.left])).toEqual([
      ["c", true],
      ["b", false],
    ]);
  });

  it("offers an older run that matches only now, and puts it where it belongs", () => {
    const two = applyFrame(EMPTY, { reset: true, runs: [run("d", 4), run("a", 1)], removed: [] });
    const late = applyFrame(two, { reset: false, runs: [run("b", 2)], removed: [] });
    expect(late.rows.map((row) => row.run.runId)).toEqual(["d", "a"]);
    expect(showWaiting(late).rows.map((row) => row.run.runId)).toEqual(["d", "b", "a"]);
  });

  it("leaves runs older than the last row to the pages to come", () => {
    const page = appendPage(EMPTY, [run("d", 4), run("c", 3)], "cursor", true);
    const frame = applyFrame(page, { reset: true, runs: [run("d", 4), run("c", 3), run("b", 2)], removed: [] });
    expect(frame.waiting).toEqual([]);
    expect(frame.rows.map((row) => row.left)).toEqual([false, false]);
  });

  it("applies rows that were read again without a stream", () => {
    const old = appendPage(EMPTY, [run("a", 1), run("b", 2), run("c", 3)], "cursor", true);
    const again = reread(old, [run("a", 1, 9), run("c", 3)]);
    expect(again.rows.map((row) => [row.run.runId, row.run.runSeq, row.left])).toEqual([
      ["a", 9, false],
      ["b", 1, true],
      ["c", 1, false],
    ]);
  });
  it("without a stream, offers runs that match and are not shown", () => {
    const old = appendPage(EMPTY, [run("a", 1), run("b", 2)], "k", true);
    expect(reread(old, [run("c", 0), run("a", 1)]).waiting.map(({ runId }) => runId)).toEqual(["c"]);
  });
});
