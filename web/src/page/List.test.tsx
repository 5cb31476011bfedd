import { expect, it, onTestFinished } from "vitest";
import { ApiError } from "../api/error";
import type { Pages } from "../api/useConnection";
import { screen, show, vi } from "../testing/render";
import { List, PageHead } from "./List";

function pages(over: Partial<Pages<string>> = {}): Pages<string> {
  return {
    rows: ["7f3a"],
    first: undefined,
    error: null,
    hasMore: false,
    loading: false,
    asOf: 0,
    more: vi.fn<() => void>(),
    refresh: vi.fn<() => void>(),
    ...over,
  };
}

function list(of: Pages<string>) {
  const columns = [{ head: "Run", cell: (row: string) => row }];
  return <List label="Queue" pages={of} columns={columns} rowKey={(row) => row} empty={<p>No run waits.</p>} />;
}

it("shows each state of a list: loading, failed, empty, with more", async () => {
  const { unmount } = await show(list(pages({ rows: null })));
  expect(screen.getByRole("status", { name: "Loading" })).toBeDefined();
  unmount();
  const failed = await show(list(pages({ rows: null, error: new ApiError("no answer", { code: "NETWORK" }) })));
  expect(screen.getByRole("alert").textContent).toContain("no answer");
  failed.unmount();
  const empty = await show(list(pages({ rows: [] })));
  expect(screen.getByText("No run waits.")).toBeDefined();
  empty.unmount();
  const some = pages({ hasMore: true });
  const { user } = await show(list(some));
  await user.click(screen.getByRole("button", { name: "Show more" }));
  expect(some.more).toHaveBeenCalledOnce();
});

it("reads the page again, and says so when the answer is more than 20 seconds old", async () => {
  // Long after a test of another file hid the page.
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 3_600_000 });
  onTestFinished(() => void vi.useRealTimers());
  const refresh = vi.fn<() => void>();
  const { user } = await show(<PageHead title="Queue" asOf={Date.now() - 25_000} refresh={refresh} repeated />);
  expect(screen.getByTestId("stale").textContent).toMatch(/^ ?Stale for 2\d s\.$/);
  await user.click(screen.getByRole("button", { name: "Refresh" }));
  expect(refresh).toHaveBeenCalledOnce();
});
