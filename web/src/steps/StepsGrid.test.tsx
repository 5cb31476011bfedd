import { afterEach, beforeEach, expect, it } from "vitest";
import { header, step, store } from "../testing/fixtures";
import { screen, show, vi } from "../testing/render";
import type { StepQuery } from "./selection";
import { StepsGrid } from "./StepsGrid";

const ALL: StepQuery = { show: [], find: "", group: null, sort: "failed" };

// The list draws the rows that have room; this DOM lays nothing out.
beforeEach(() => {
  vi.spyOn(HTMLElement.prototype, "clientHeight", "get").mockReturnValue(600);
  vi.spyOn(HTMLElement.prototype, "clientWidth", "get").mockReturnValue(900);
});
afterEach(() => vi.restoreAllMocks());

async function grid(query: StepQuery = ALL, run = store(header())) {
  const setQuery = vi.fn<(query: StepQuery) => void>();
  const choose = vi.fn<(stepId: string) => void>();
  const view = await show(
    <StepsGrid narrow={false} chosen={null} choose={choose} query={query} setQuery={setQuery} />,
    { run },
  );
  return { ...view, setQuery, choose };
}

it("is a table of the steps, the failed ones first, whose rows open a step", async () => {
  const { user, choose } = await grid();
  expect(screen.getByRole("table", { name: "8 steps" })).toBeDefined();
  await screen.findByRole("button", { name: /^stg_orders, Retry #1, failed/ });
  const names = screen
    .getAllByRole("row")
    .slice(1)
    .map((row) => row.querySelector("button")?.title);
  expect(names[0]).toBe("stg_orders");
  await user.click(screen.getByRole("button", { name: /^stg_orders, Retry #1, failed/ }));
  expect(choose).toHaveBeenCalledExactlyOnceWith("stg_orders");
});

it("shows a result that a rerun kept as kept: it has not waited, and did not succeed here", async () => {
  const kept = header({ stepCounts: { ...header().stepCounts, success: 1, kept: 1 } });
  const from = step("load", { keptFrom: "c09db14f-1111", startedAt: null, completedAt: null, attempts: [] });
  await grid(ALL, store(kept, {}, [from]));
  const row = (await screen.findByRole("button", { name: /^load/ })).closest("[role=row]");
  const cell = (column: string): string | null => row?.querySelector(`[data-column=${column}]`)?.textContent ?? null;
  expect([cell("status"), cell("waited"), cell("cause")]).toEqual(["Kept", "", "Kept from c09db14f"]);
  expect(screen.getByRole("button", { name: "Kept 1" })).toBeDefined();
});

it("filters by status, hides done steps, and sorts by a column", async () => {
  const { user, setQuery } = await grid();
  await user.click(screen.getByRole("button", { name: "Failed 1" }));
  expect(setQuery).toHaveBeenLastCalledWith({ ...ALL, show: ["FAILED"] });
  await user.click(screen.getByRole("button", { name: "Hide done" }));
  expect(setQuery).toHaveBeenLastCalledWith({ ...ALL, show: ["FAILED", "WAITING", "RUNNING", "PENDING"] });
  await user.click(screen.getByRole("button", { name: "Took" }));
  expect(setQuery).toHaveBeenLastCalledWith({ ...ALL, sort: "took" });
  await user.keyboard("f");
  expect(document.activeElement).toBe(screen.getByRole("searchbox", { name: "Find a step" }));
});

it("selects rows by keys and by the box, and offers actions on them", async () => {
  const { user } = await grid();
  await user.keyboard("x");
  expect(screen.getByRole("region", { name: "Selected steps" }).textContent).toContain("1 step selected");
  await user.click(screen.getByRole("checkbox", { name: "Select all steps shown" }));
  expect(screen.getByText("8 steps selected")).toBeDefined();
  await user.keyboard("{Escape}");
  expect(screen.queryByRole("region", { name: "Selected steps" })).toBeNull();
});

it("says that no step matches", async () => {
  await grid({ ...ALL, find: "nowhere" });
  expect(screen.getByText("No step matches this filter.")).toBeDefined();
});

it("leaves out the columns that are empty in every row", async () => {
  const { container, unmount } = await grid();
  expect(
    container.querySelector("[data-empty]")?.getAttribute("data-empty") ?? "",
    "steps with groups, a retry, and one with three tries",
  ).toBe("");
  expect(screen.getByText("in 3 tries, the last 12 s")).toBeDefined();
  unmount();
  const view = await show(
    <StepsGrid narrow={false} chosen={null} choose={() => {}} query={ALL} setQuery={() => {}} />,
    { run: store(header(), {}, [step("load", { group: null })]) },
  );
  expect(view.container.querySelector("[data-empty]")?.getAttribute("data-empty")).toBe("group attempt median");
});

it("does not say of a cancelled run that steps failed or are pending", async () => {
  const stepCounts = { total: 12, pending: 9, running: 0, success: 0, failed: 3, skipped: 0, stopped: 3, kept: 0 };
  await show(<StepsGrid narrow={false} chosen={null} choose={() => {}} query={ALL} setQuery={() => {}} />, {
    run: store(header({ status: "CANCELLED", statusRaw: "CANCELLED", stepCounts })),
  });
  expect(screen.getByRole("button", { name: "Cancelled 3" })).toBeDefined();
  expect(screen.getByRole("button", { name: "Never started 9" })).toBeDefined();
  expect(screen.queryByRole("button", { name: /^(?:Failed|Pending) \d/ })).toBeNull();
});
