import { fireEvent } from "@testing-library/react";
import { expect, it } from "vitest";
import { header, NOW, RUN, RUNS } from "../testing/fixtures";
import { screen, show, vi } from "../testing/render";
import { COLUMNS, DEFAULT_COLUMNS } from "./columns";
import type { Marks } from "./useRowMarks";
import { RunTable, widthsOf } from "./RunTable";

const ROWS = ["failed", "draining", "running"].map((name, i) => ({
  run: { ...(RUNS[name] ?? header()), runId: `${name.slice(0, 3)}${RUN}` },
  left: i === 1,
}));

const REST = { columns: DEFAULT_COLUMNS, marks: new Map<string, Marks>(), onTag: () => {} };

async function table(selected: ReadonlySet<string> = new Set(), over: Partial<Parameters<typeof RunTable>[0]> = {}) {
  const turn = vi.fn<(runId: string, range: boolean) => void>();
  const turnAll = vi.fn<(on: boolean) => void>();
  const view = await show(
    <RunTable
      rows={ROWS}
      now={NOW}
      frozen
      selecting={{ selected, turn, turnAll }}
      menu={() => []}
      {...REST}
      {...over}
    />,
  );
  return { ...view, turn, turnAll, rows: screen.getAllByRole("row").slice(1) };
}

it("says for each run its status, its progress and its cause, and marks one that no longer matches", async () => {
  const { rows } = await table();
  expect(rows[0]?.textContent).toContain("Failed");
  expect(rows[0]?.textContent).toContain(
    "not_null_stg_orders_id: Got 3 results, configured to fail if != 0 · stg_orders",
  );
  expect(rows[0]?.textContent, "skipped steps are not done").toContain("41/60 · 1 failed");
  expect(rows[1]?.textContent).toContain("by ops: “warehouse maintenance”");
  expect(rows[1]?.textContent).toContain("no longer matches");
  expect(rows[2]?.textContent, "its clock stands").toContain("≥ 12 m 4 s");
  expect(screen.getByRole("link", { name: /^nightly ?@1\.4\.2 fai01KAH/ }).getAttribute("href")).toBe(
    `/runs/fai${RUN}`,
  );
});

it("marks a run that has not ended by its deadline", async () => {
  const [due, late] = ROWS;
  if (!due || !late) throw new Error("no rows");
  const { rows } = await table(new Set(), {
    rows: [due, { ...late, run: { ...late.run, deadline: new Date(NOW - 1).toISOString() } }],
  });
  expect(rows[0]?.querySelector("b")).toBeNull();
  expect(rows[1]?.querySelector("b")?.textContent).toBe(" late");
});

it("selects a row by its box, a range with Shift, and all by the head", async () => {
  const { turn, turnAll } = await table(new Set([`fai${RUN}`]));
  const boxes = screen.getAllByRole<HTMLInputElement>("checkbox");
  expect([boxes[0]?.indeterminate, boxes[1]?.checked, boxes[2]?.checked]).toEqual([true, true, false]);
  fireEvent.click(boxes[2] as HTMLElement);
  fireEvent.click(boxes[3] as HTMLElement, { shiftKey: true });
  expect(turn.mock.calls).toEqual([
    [`dra${RUN}`, false],
    [`run${RUN}`, true],
  ]);
  fireEvent.click(boxes[0] as HTMLElement);
  expect(turnAll).toHaveBeenCalledExactlyOnceWith(true);
});

it("gives one failed step of 300 a width that can be seen", () => {
  const widths = widthsOf([149, 1, 0, 0, 150], 300);
  expect(widths[1]).toBe(5);
  expect(widths.reduce((sum, width) => sum + width)).toBeCloseTo(100);
  expect(widthsOf([0, 0], 0)).toEqual([0, 0]);
});

it("says of a run that has not started when it was created", async () => {
  await show(
    <RunTable
      rows={[{ run: RUNS["queued"] ?? header(), left: false }]}
      now={NOW}
      frozen
      selecting={{ selected: new Set(), turn: () => {}, turnAll: () => {} }}
      menu={() => []}
      {...REST}
    />,
  );
  expect(screen.getByTitle(/^Created .* UTC$/).textContent).toBe("not started");
});

it("shows the columns that were chosen, in their order, and nothing of the others", async () => {
  await table(new Set(), { columns: ["took", "tags"] });
  expect(screen.getAllByRole("columnheader").map((head) => head.textContent)).toEqual([
    "",
    "Status",
    "Plan · run",
    "Took",
    "Tags",
    "More",
  ]);
  expect(screen.queryByText(/Got 3 results/)).toBeNull();
});

it("says the cause as a sentence, with its code under the pointer, and shows tags beside the name", async () => {
  const { rows } = await table(new Set(), { marks: new Map([[`fai${RUN}`, { tags: ["late"], notes: 2 }]]) });
  expect(rows[0]?.textContent).toMatch(/Got 3 results\S*.* · stg_orders$/);
  expect(screen.getByText(/Got 3 results/).title).toMatch(/DBT_TEST_FAILED$/);
  expect(screen.getByRole("button", { name: "late" })).toBeDefined();
  const notes = screen.getByRole("link", { name: /^2 notes of nightly/ });
  expect(notes.getAttribute("href")).toBe(`/runs/fai${RUN}?view=details`);
});

it("begins the cause with the words that differ between runs of one plan", async () => {
  const run = RUNS["failed"] ?? header();
  const rootCause = run.rootCause && { ...run.rootCause, message: "ERROR: relation raw_orders does not exist\nLINE 3" };
  await table(new Set(), { rows: [{ run: { ...run, rootCause }, left: false }] });
  expect(screen.getByText(/^relation raw_orders does not exist · stg_orders/).title).toMatch(/^stg_orders: ERROR: /);
});

it("says under the cause what a waiting run waits for", async () => {
  const run = RUNS["queued"] ?? header();
  await table(new Set(), { rows: [{ run, left: false }], waits: new Map([[run.runId, "Waits for dev-planner"]]) });
  expect(screen.getByText("Waits for dev-planner").tagName).toBe("TD");
});

it("shows two tags of a run and the number of the others, and filters by a click", async () => {
  const onTag = vi.fn<(tag: string) => void>();
  const marks = new Map([[`fai${RUN}`, { tags: ["late", "team:data", "urgent", "z"], notes: 0 }]]);
  const { user, rows } = await table(new Set(), { columns: COLUMNS, marks, onTag });
  expect(rows[0]?.textContent).toContain("lateteam:data+2");
  expect(screen.getByTitle("urgent, z").textContent).toBe("+2");
  await user.click(screen.getByRole("button", { name: "team:data" }));
  expect(onTag).toHaveBeenCalledExactlyOnceWith("team:data");
});

it("says of a cancelled run how many steps were cancelled, and of a rerun how many were kept", async () => {
  const stepCounts = { total: 12, pending: 9, running: 0, success: 2, failed: 1, skipped: 0, stopped: 1, kept: 2 };
  const { rows } = await table(new Set(), {
    rows: ROWS.map(({ run, left }) => ({ run: { ...run, stepCounts }, left })),
  });
  expect(rows[0]?.textContent).toContain("2/12 · 1 cancelled · 2 kept");
  expect(rows[0]?.textContent).not.toContain("1 failed");
});

it("says how many approvals a run waits for", async () => {
  const waits = { status: "PENDING", waitsForApprovals: { given: 0, required: 2 }, rootCause: null } as const;
  const stepCounts = { total: 0, pending: 0, running: 0, success: 0, failed: 0, skipped: 0, stopped: 0, kept: 0 };
  const { rows } = await table(new Set(), {
    rows: ROWS.map(({ run, left }) => ({ run: { ...run, ...waits, stepCounts }, left })),
  });
  expect(rows[0]?.textContent).toMatch(/^Waiting for approval.*0 of 2 approvals/);
});

it("says of a running run that a list does not know whether a step waits for its next try", async () => {
  const { rows } = await table();
  expect(rows[2]?.querySelector("td[title]")?.getAttribute("title")).toContain("a step may wait for its next try");
  expect(rows[0]?.querySelector("td[title*='next try']"), "of a run that failed").toBeNull();
});
