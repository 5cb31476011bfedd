import { expect, it } from "vitest";
import { available, header, RUN, RUNS, store } from "../testing/fixtures";
import { screen, show } from "../testing/render";
import { RunHeaderView } from "./RunHeader";

function buttons(): (string | null)[] {
  return screen.getAllByRole("button").map((button) => button.getAttribute("aria-label") ?? button.textContent);
}

it("names the place, the plan and the status, and counts the steps", async () => {
  await show(<RunHeaderView />, { run: store(RUNS["running"] ?? header()) });
  expect(screen.getByRole("heading", { level: 1 }).textContent).toBe("acme / shop / PROD nightly@1.4.2");
  expect(screen.getByTestId("run-status").textContent).toBe("Running");
  for (const word of [
    "41 succeeded",
    "1 running",
    "1 waiting for a person",
    "17 pending",
    "of 60 steps",
    "started by ana",
  ])
    expect(screen.getByText(word, { exact: false })).toBeDefined();
});

it.each([
  ["running", ["PauseP", "Cancel run"]],
  ["paused", ["ResumeP", "Cancel run"]],
  ["awaitingOperator", ["Retry stepr", "PauseP", "Cancel run"]],
  ["completed", ["Run again"]],
] as const)("offers what a run that is %s can take", async (name, want) => {
  await show(<RunHeaderView />, { run: store(RUNS[name] ?? header()) });
  const offered = buttons().flatMap((word) => (word?.includes("…") ? [word.replace("…", "")] : []));
  expect(offered).toEqual(want);
});

it("offers the approval of a run that waits for it", async () => {
  const { user, act } = await show(<RunHeaderView />, {
    run: store(RUNS["pending"] ?? header()),
    actions: { run: new Map([["APPROVE", available("APPROVE")]]) },
  });
  await user.click(screen.getByRole("button", { name: "Approve…" }));
  expect(act).toHaveBeenCalledExactlyOnceWith("APPROVE", null);
});

it("says how many tasks a pause waits for, who asked for it and why", async () => {
  await show(<RunHeaderView />, { run: store(RUNS["draining"] ?? header()) });
  expect(screen.getByText("Waiting for 2 in-flight tasks · by ops: “warehouse maintenance”")).toBeDefined();
});

it("copies the run's id and opens the list of all actions", async () => {
  const { user, menu } = await show(<RunHeaderView />);
  await user.click(screen.getByRole("button", { name: /^Copy run id/ }));
  expect(await navigator.clipboard.readText()).toBe(RUN);
  await user.click(screen.getByRole("button", { name: "Actions" }));
  expect(menu).toHaveBeenCalledOnce();
});
