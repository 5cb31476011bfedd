import { act, fireEvent } from "@testing-library/react";
import { expect, it } from "vitest";
import { description, of, screen, show, vi } from "../testing/render";
import type { RunQuery } from "./query";
import { RunFilters, SavedViews } from "./RunFilters";

type Change = (query: RunQuery, replace?: boolean) => void;

async function filters(query: RunQuery = {}) {
  const change = vi.fn<Change>();
  const view = await show(<RunFilters query={query} change={change} ref={() => {}} />);
  return { ...view, change, bar: screen.getByRole("searchbox", { name: "Filter runs" }) };
}

it("applies typed text after a pause, or at once by Enter", async () => {
  vi.useFakeTimers({ shouldAdvanceTime: true });
  const { bar, change } = await filters();
  fireEvent.change(bar, { target: { value: "status:failed plan:nightly" } });
  act(() => vi.advanceTimersByTime(200));
  expect(change).not.toHaveBeenCalled();
  act(() => vi.advanceTimersByTime(200));
  expect(change).toHaveBeenLastCalledWith({ status: ["FAILED"], plan: "nightly" }, true);
  fireEvent.change(bar, { target: { value: "env:prod" } });
  fireEvent.keyDown(bar, { key: "Enter" });
  expect(change).toHaveBeenLastCalledWith({ env: "prod" }, true);
});

it("says which words it does not understand", async () => {
  const { bar, user } = await filters();
  await user.type(bar, "colour:red");
  expect(bar.getAttribute("aria-invalid")).toBe("true");
  expect(description(bar)).toContain("colour:red");
});

it("turns statuses by buttons, each a step of the history", async () => {
  const { user, change } = await filters({ status: ["FAILED"], plan: "nightly" });
  expect(screen.getByRole("button", { name: "Failed", pressed: true })).toBeDefined();
  await user.click(screen.getByRole("button", { name: "Paused" }));
  expect(change).toHaveBeenLastCalledWith({ plan: "nightly", status: ["PAUSED", "FAILED"] });
});

it("saves a view under a name on the server, and removes it", async () => {
  const views: { viewId: string; name: string; query: string; yours: boolean; owner: string; projectId: null }[] = [];
  const { user, sent } = await show(<SavedViews query={{ plan: "nightly" }} waiting={2} />, {
    answers: {
      SavedViews: () => ({ savedViews: [...views] }),
      RunCounts: { runCounts: [0, 101, 3, 0, 7] },
      SaveView: ({ input }: { input: { id: string; name: string; query: string } }) => {
        views.push({
          viewId: input.id,
          name: input.name,
          query: input.query,
          yours: true,
          owner: "ana",
          projectId: null,
        });
        return { saveView: { view: { viewId: input.id } } };
      },
      DeleteView: () => {
        views.pop();
        return { deleteView: { deleted: true } };
      },
    },
  });
  expect(screen.getByRole("link", { name: "Waiting for me 2" })).toBeDefined();
  expect(await screen.findByRole("link", { name: "Failed 100+" })).toBeDefined();
  expect(screen.getByRole("link", { name: "Needs attention" }).getAttribute("href")).toBe("/");
  await user.click(screen.getByRole("button", { name: "+ Save view" }));
  await user.type(await screen.findByLabelText("Name"), "Nightly");
  await user.click(screen.getByRole("button", { name: "Save" }));
  expect(await screen.findByRole("link", { name: /^Nightly/ })).toBeDefined();
  expect(of(sent, "SaveView")[0]).toMatchObject({ input: { name: "Nightly", query: "plan:nightly", projectId: null } });
  await user.click(screen.getByRole("button", { name: "Remove view" }));
  await vi.waitFor(() => expect(screen.queryByRole("link", { name: /^Nightly/ })).toBeNull());
});

it("counts runs that await an operator among the failed ones", async () => {
  const { sent } = await show(<SavedViews query={{}} waiting={null} />, {
    answers: { SavedViews: { savedViews: [] }, RunCounts: { runCounts: [] } },
  });
  await vi.waitFor(() => expect(of(sent, "RunCounts")).not.toHaveLength(0));
  const { filters } = of(sent, "RunCounts")[0] as { filters: unknown[] };
  expect(filters[1]).toEqual({ statuses: ["FAILED"], awaitingOperator: true });
});

it("says how many of the failed runs wait for somebody", async () => {
  await show(<SavedViews query={{}} waiting={null} />, {
    answers: { SavedViews: { savedViews: [] }, RunCounts: { runCounts: [0, 14, 14, 0, 5] } },
  });
  expect(await screen.findByRole("link", { name: "Failed 14 = 9 failed + 5 waiting" })).toBeDefined();
});
