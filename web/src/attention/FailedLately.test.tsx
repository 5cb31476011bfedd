import { expect, it } from "vitest";
import { screen, show, vi } from "../testing/render";
import { FailedLately } from "./FailedLately";

const failed = (n: number) => ({
  node: {
    runId: `f${n}000000`,
    projectId: "shop",
    environmentId: "prod",
    completedAt: "2026-11-22T02:50:00Z",
    plan: { planId: "nightly", planVersion: "1.4" },
    rootCause: { stepId: "stg_orders", code: "EXIT_STATUS", message: "exit status 1" },
  },
});

it("shows five runs that failed for good, and leads to all of them", async () => {
  const edges = [1, 2, 3, 4, 5, 6].map(failed);
  await show(<FailedLately />, { answers: { FailedLately: { runs: { edges } } } });
  expect(await screen.findAllByText("stg_orders: EXIT_STATUS exit status 1")).toHaveLength(5);
  expect(screen.getAllByRole("link", { name: /nightly@1.4/ })[0]?.getAttribute("href")).toBe("/runs/f1000000");
  const all = screen.getByRole("link", { name: "All that failed" }).getAttribute("href") ?? "";
  expect(decodeURIComponent(all)).toBe('/runs?status=["FAILED"]&from=-24h');
});

it("takes no room when nothing failed", async () => {
  const { container, sent } = await show(<FailedLately />, { answers: { FailedLately: { runs: { edges: [] } } } });
  await vi.waitFor(() => expect(sent).toHaveLength(1));
  await vi.waitFor(() => expect(container.querySelector("section")).toBeNull());
});
