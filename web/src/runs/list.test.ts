import { describe, expect, it } from "vitest";
import type { RunRow } from "../api/model";
import { appendPage, applyFrame, EMPTY, showWaiting } from "./list";

function run(runId: string, createdAt: number, runSeq = 1, opsRev = 1): RunRow {
  // The list looks at nothing else of a row.
  return { runId, createdAt, runSeq, opsRev, storeEpoch: "e" } as RunRow;
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

  it("marks what a new first page lacks, but not older pages", () => {
    const longer = appendPage(first, [run("a", 1)], null, false);
    const reset = applyFrame(longer, { reset: true, runs: [run("d", 4), run("b", 2)], removed: [] });
    expect(reset.rows.map((row) => [row.run.runId, row.left])).toEqual([["c", true], ["b", false], ["a", false]]);
    expect(reset.waiting.map((row) => row.runId)).toEqual(["d"]);
  });

  it("adds a page without repeats", () => {
    const page = appendPage(first, [run("b", 2), run("a", 1)], "cursor", true);
    expect(page.rows.map((row) => row.run.runId)).toEqual(["c", "b", "a"]);
    expect([page.endCursor, page.hasMore]).toEqual(["cursor", true]);
  });
});
