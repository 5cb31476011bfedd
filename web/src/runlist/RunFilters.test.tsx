import { act, fireEvent } from "@testing-library/react";
import { expect, it } from "vitest";
import { description, screen, show, vi } from "../testing/render";
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

it("saves a view under a name in this browser, and removes it", async () => {
  const { user } = await show(<SavedViews query={{ plan: "nightly" }} waiting={2} />);
  expect(screen.getByRole("link", { name: "Waiting for me 2" })).toBeDefined();
  await user.click(screen.getByRole("button", { name: "+ Save view" }));
  await user.type(screen.getByLabelText("Name"), "Nightly");
  await user.click(screen.getByRole("button", { name: "Save" }));
  expect(screen.getByRole("link", { name: "Nightly" })).toBeDefined();
  expect(localStorage.getItem("dvt.views")).toBe('[{"name":"Nightly","query":"plan:nightly"}]');
  await user.click(screen.getByRole("button", { name: "Remove view" }));
  expect(screen.queryByRole("link", { name: "Nightly" })).toBeNull();
});
