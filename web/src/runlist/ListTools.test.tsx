import { expect, it } from "vitest";
import { screen, show, vi } from "../testing/render";
import { type Column, DEFAULT_COLUMNS } from "./columns";
import { ListTools } from "./ListTools";
import type { RunQuery } from "./query";

async function tools(query: RunQuery) {
  const change = vi.fn<(query: RunQuery) => void>();
  const choose = vi.fn<(columns: Column[] | null) => void>();
  const view = await show(<ListTools query={query} change={change} columns={DEFAULT_COLUMNS} choose={choose} />);
  return { ...view, change, choose, sort: screen.getByRole<HTMLSelectElement>("combobox", { name: "Sort" }) };
}

it("sorts the list, and says which order the filter does not take", async () => {
  const { user, change, sort } = await tools({ by: "me", sort: "oldest" });
  expect(sort.value).toBe("oldest");
  const refused = [...sort.options].filter((option) => option.disabled).map((option) => option.text);
  expect(refused).toEqual([
    "Last ended first (not with these filters)",
    "Longest first (not with these filters)",
    "Shortest first (not with these filters)",
  ]);
  await user.selectOptions(sort, "left");
  expect(change).toHaveBeenLastCalledWith({ by: "me", sort: "left" });
  await user.selectOptions(sort, "newest");
  expect(change).toHaveBeenLastCalledWith({ by: "me" });
});

it("chooses columns in a dialog, in the order of the table, and goes back to the usual ones", async () => {
  const { user, choose } = await tools({});
  await user.click(screen.getByRole("button", { name: "Columns…" }));
  await user.click(await screen.findByRole("checkbox", { name: "Tags" }));
  expect(choose).toHaveBeenLastCalledWith(["env", "steps", "started", "took", "by", "tags", "cause"]);
  await user.click(screen.getByRole("button", { name: "Reset" }));
  expect(choose).toHaveBeenLastCalledWith(null);
});
