import { expect, it } from "vitest";
import { screen, show } from "../testing/render";
import { RunsNow } from "./RunsNow";

it("says what runs, without the runs that wait for an operator, what waits to start, and what is late", async () => {
  await show(<RunsNow late={1} />, { answers: { RunsNow: { runCounts: [9, 4, 1, 3] } } });
  const running = await screen.findByRole("link", { name: "5 running" });
  expect(running.getAttribute("href")).toContain("RUNNING");
  expect(running.closest("p")?.textContent).toBe("Now: 5 running · 1 paused · 3 not started · 1 late");
});

it("says that nothing runs", async () => {
  await show(<RunsNow late={0} />, { answers: { RunsNow: { runCounts: [0, 0, 0, 0] } } });
  expect((await screen.findByText(/Now:/)).textContent).toBe("Now: nothing runs or waits to start.");
});
