import { act } from "@testing-library/react";
import { expect, it } from "vitest";
import { receipts } from "../receipts/context";
import { RUN, signal } from "../testing/fixtures";
import { screen, show, vi } from "../testing/render";
import { RunKeys } from "./RunKeys";
import { RunTabs } from "./RunTabs";

it("names the views with their keys, and marks the one that is shown", async () => {
  const { user, search } = await show(<RunTabs runId="without-receipts" view="steps" />, {
    path: `/runs/${RUN}?view=steps`,
  });
  const links = screen.getAllByRole("link");
  expect(links.map((link) => link.textContent)).toEqual([
    "1Graph",
    "2Timeline",
    "3Steps",
    "4Events",
    "5Receipts",
    "6Artifacts",
    "7Details",
    "8Search logs",
  ]);
  const current = links.map((link) => link.getAttribute("aria-current"));
  expect(current).toEqual([null, null, "page", null, null, null, null, null]);
  await user.click(screen.getByRole("link", { name: /Timeline/ }));
  await vi.waitFor(() => expect(search()).toMatchObject({ view: "timeline" }));
});

it("counts the receipts that came since one looked at them", async () => {
  const runId = "with-receipts";
  receipts.receive(
    signal({ runId, signalId: "tab-1", receivedAt: 10 }),
    signal({ runId, signalId: "tab-2", receivedAt: 20 }),
  );
  const { unmount } = await show(<RunTabs runId={runId} view="graph" />);
  expect(screen.getByRole("link", { name: "Receipts 2" })).toBeDefined();
  unmount();
  const read = await show(<RunTabs runId={runId} view="receipts" />);
  await vi.waitFor(() => expect(screen.getByRole("link", { name: "Receipts" })).toBeDefined());
  read.unmount();
  await show(<RunTabs runId={runId} view="graph" />);
  act(() => receipts.receive(signal({ runId, signalId: "tab-3", receivedAt: 30 })));
  expect(screen.getByRole("link", { name: "Receipts 1" })).toBeDefined();
});

it("opens views, dialogs and the log by keys, and sends nothing", async () => {
  const { user, act, menu, search, sent } = await show(
    <>
      <p>page</p>
      <RunKeys chosen={null} close={() => {}} />
    </>,
  );
  await user.keyboard("3");
  await vi.waitFor(() => expect(search()).toMatchObject({ view: "steps" }));
  await user.keyboard("r");
  expect(act).toHaveBeenLastCalledWith("RETRY_STEP", "stg_orders");
  await user.keyboard("P");
  expect(act).toHaveBeenLastCalledWith("PAUSE", null);
  await user.keyboard(".");
  expect(menu).toHaveBeenCalledOnce();
  await user.keyboard("l");
  await vi.waitFor(() => expect(search()).toMatchObject({ step: "stg_orders", tab: "log" }));
  expect(sent).toEqual([]);
});

it("closes the open step by Esc", async () => {
  const close = vi.fn<() => void>();
  const { user } = await show(
    <>
      <p>page</p>
      <RunKeys chosen="stg_orders" close={close} />
    </>,
  );
  await user.keyboard("{Escape}");
  expect(close).toHaveBeenCalledOnce();
});
