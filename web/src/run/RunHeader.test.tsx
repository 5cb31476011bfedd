import { expect, it } from "vitest";
import { available, header, NOW, RUN, RUNS, store } from "../testing/fixtures";
import { screen, show } from "../testing/render";
import { RunFacts, RunHeaderView } from "./RunHeader";

function buttons(): (string | null)[] {
  return screen.getAllByRole("button").map((button) => button.getAttribute("aria-label") ?? button.textContent);
}

it("names the place, the plan and the status, and counts the steps", async () => {
  await show(
    <>
      <RunHeaderView />
      <RunFacts />
    </>,
    { run: store(RUNS["running"] ?? header()) },
  );
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
  ["completed", ["Rerun"]],
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
  expect(screen.getByText("Waiting for 2 running steps · by ops: “warehouse maintenance”")).toBeDefined();
});

it("copies the run's id and opens the list of all actions", async () => {
  const { user, menu } = await show(<RunHeaderView />);
  await user.click(screen.getByRole("button", { name: /^Copy run id/ }));
  expect(await navigator.clipboard.readText()).toBe(RUN);
  await user.click(screen.getByRole("button", { name: "Actions" }));
  expect(menu).toHaveBeenCalledOnce();
});

it("names the failure in one line, counts down, and is urgent in the last minutes", async () => {
  const soon = header({ substatus: "AWAITING_OPERATOR", retryDeadline: NOW + 90_000 });
  await show(<RunHeaderView />, { run: store(soon) });
  const words = screen.getByText("1 m 30 s left to retry · stg_orders failed: DBT_TEST_FAILED");
  expect(words.hasAttribute("data-urgent")).toBe(true);
});

it("is not urgent while there is time", async () => {
  await show(<RunHeaderView />, { run: store(RUNS["awaitingOperator"] ?? header()) });
  expect(screen.getByText(/6 m 40 s left to retry/).hasAttribute("data-urgent")).toBe(false);
});

it("says that the window closed unanswered", async () => {
  await show(<RunHeaderView />, { run: store(RUNS["failed"] ?? header()) });
  expect(
    screen.getByText("stg_orders failed: DBT_TEST_FAILED · nobody retried within 10 m 0 s", { exact: false }),
  ).toBeDefined();
});

it("says who cancelled the run, and that its steps never started", async () => {
  await show(
    <>
      <RunHeaderView />
      <RunFacts />
    </>,
    { run: store(RUNS["cancelled"] ?? header()) },
  );
  expect(screen.getByText("cancelled by ben: “wrong day”")).toBeDefined();
  expect(screen.getByText("14 never started")).toBeDefined();
});

it("does not call a queued run started", async () => {
  await show(<RunFacts />, { run: store(RUNS["queued"] ?? header()) });
  expect(screen.getByText(/requested by ana/)).toBeDefined();
  expect(screen.queryByText(/started by/)).toBeNull();
});

it("shows its counts without a flash, because they change all the time", async () => {
  await show(<RunFacts />, { run: store(RUNS["running"] ?? header()) });
  expect(screen.getByText("41 succeeded").className).not.toMatch(/flash/);
});
