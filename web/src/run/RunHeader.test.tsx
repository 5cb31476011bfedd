import { expect, it } from "vitest";
import type { Task } from "../actions/useAvailability";
import { receipts } from "../receipts/context";
import { attempt, available, header, NOW, RUN, RUNS, SEQ, signal, step, store } from "../testing/fixtures";
import { of, screen, show, vi } from "../testing/render";
import { RetriesProvider } from "../waits/retries";
import { RunFacts, RunHeaderView } from "./RunHeader";

/** Parts of the page are loaded when they are shown. */
const LOADED = { timeout: 10_000 };

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

it("names the reruns of a run that has ended, so that nobody reruns it twice", async () => {
  const node = { status: "FAILED", statusRaw: "FAILED", substatus: null };
  const edges = [
    { node: { ...node, runId: "aaaaaaaa-1111-4111-8111-111111111111", parentRunId: RUN } },
    { node: { ...node, runId: "bbbbbbbb-2", parentRunId: "of-another" } },
  ];
  const { sent } = await show(<RunFacts />, {
    run: store(RUNS["failed"] ?? header()),
    answers: { Reruns: { runs: { edges } } },
  });
  await vi.waitFor(
    () => expect(screen.getByTestId("reruns").textContent).toBe(" · rerun as aaaaaaaa (Failed)"),
    LOADED,
  );
  const asked = sent.find(({ name }) => name === "Reruns")?.variables;
  expect(asked).toMatchObject({ planId: "nightly", createdFrom: new Date(NOW - 60_000).toISOString(), first: 100 });
});

it("says of a green run that a person skipped a failed step", async () => {
  const skipped = step("load", { status: "SKIPPED", statusRaw: "SKIPPED", attempts: [attempt()] });
  await show(<RunHeaderView />, { run: store(RUNS["completed"] ?? header(), {}, [skipped]) });
  expect(screen.getByText("1 step failed and a person skipped it")).toBeDefined();
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
  const words = screen.getByText(
    "1 m 30 s left to retry · stg_orders failed: not_null_stg_orders_id: Got 3 results, configured to fail if != 0",
  );
  expect(words.hasAttribute("data-urgent")).toBe(true);
});

it("is not urgent while there is time", async () => {
  await show(<RunHeaderView />, { run: store(RUNS["awaitingOperator"] ?? header()) });
  expect(screen.getByText(/6 m 40 s left to retry/).hasAttribute("data-urgent")).toBe(false);
});

it("says who can complete a manual step beside the button, and why the viewer cannot in a tooltip", async () => {
  const action = available("COMPLETE_MANUAL_STEP", {
    outcome: "REFUSED",
    code: "SOD_VIOLATION",
    reason: "You started this run.",
    whoCould: ["dev-admin", "dev-operator"],
  });
  const task = { runId: RUN, stepId: "sign_off", action } as unknown as Task;
  await show(<RunHeaderView />, {
    run: store(RUNS["waitingManual"] ?? header()),
    actions: { tasks: [task], step: () => new Map([["COMPLETE_MANUAL_STEP", action] as const]) },
  });
  const words = screen.getByText(/can complete/);
  expect(words.textContent).toBe("Only dev-admin, dev-operator can complete sign_off");
  expect(words.title).toBe("You started this run.");
  const button = screen.getByRole("button", { name: "Complete step…" });
  expect(button.getAttribute("aria-disabled")).toBe("true");
});

it("says after how many retries, and by whom, a run completed", async () => {
  const applied = { runId: "after-retries", type: "RETRY_STEP", application: "APPLIED", appliedSeq: 9 } as const;
  receipts.receive(
    signal({ ...applied, signalId: "retry-1", actor: "ben" }),
    signal({ ...applied, signalId: "retry-2", actor: "ben" }),
    signal({ ...applied, signalId: "retry-3", application: "NOOP" }),
  );
  await show(<RunFacts />, { run: store(header({ ...RUNS["completed"], runId: "after-retries" })) });
  expect(screen.getByTestId("retries").textContent).toBe(", after 2 retries by ben");
});

it("says that the window closed unanswered", async () => {
  await show(<RunHeaderView />, { run: store(RUNS["failed"] ?? header()) });
  expect(
    screen.getByText(
      "stg_orders failed: not_null_stg_orders_id: Got 3 results, configured to fail if != 0 · nobody retried within 10 m 0 s",
      { exact: false },
    ),
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

it("names the run that it is a rerun of, its tags, and that it has notes", async () => {
  const notes = { runTags: [{ tags: ["reload"] }], runNotes: [{ no: 1, author: "ben", at: "", body: "see me" }] };
  const { user, search } = await show(<RunFacts />, {
    run: store(header({ parentRunId: `${RUN}parent` })),
    answers: { RunNotes: notes },
  });
  const origin = screen.getByRole("link", { name: "01KAHW3V" });
  expect(origin.getAttribute("href")).toBe(`/runs/${RUN}parent`);
  await user.click(await screen.findByRole("link", { name: "reload, 1 note" }));
  await vi.waitFor(() => expect(search()).toMatchObject({ view: "details" }));
});

it("does not count cancelled steps as failed, nor kept ones as succeeded", async () => {
  const stepCounts = { total: 12, pending: 6, running: 0, success: 2, failed: 4, skipped: 0, stopped: 3, kept: 2 };
  await show(<RunFacts />, { run: store(header({ status: "CANCELLED", statusRaw: "CANCELLED", stepCounts })) });
  for (const word of ["1 failed", "3 cancelled", "2 kept"])
    expect(screen.getByText(word, { exact: false })).toBeDefined();
  expect(screen.queryByText("succeeded", { exact: false })).toBeNull();
});

const WAIT = {
  kind: "JOURNAL",
  since: "2026-11-21T02:12:07Z",
  until: null,
  message: "A worker has no access to the journal of the server: the answer was HTTP 403.",
  help: "The people who operate the workers can help.",
  whoCould: [],
};

function waits(runSeq: number, ...list: object[]): Record<string, unknown> {
  return { RunWaits: { run: { runSeq, startedAt: WAIT.since, waits: list } } };
}

it("says in its bar what an open run stands still for, since when and who can help", async () => {
  const running = RUNS["running"] ?? header();
  const person = { ...WAIT, kind: "PERSON", message: "A person must act." };
  await show(<RunHeaderView />, { run: store(running), answers: waits(SEQ, person, WAIT) });
  const words = await screen.findByTestId("waits");
  expect(words.textContent).toMatch(/^A worker has no access to the journal.* HTTP 403\. Since /);
  expect(words.title).toContain("The people who operate the workers can help.");
});

it("does not say that a run waits for a worker when it has moved since the answer", async () => {
  const worker = { ...WAIT, kind: "WORKER", since: null, message: "The run waits for a worker." };
  const run = { ...(RUNS["running"] ?? header()), runId: "moved" };
  const { sent, unmount } = await show(<RunHeaderView />, { run: store(run), answers: waits(SEQ - 1, worker) });
  await vi.waitFor(() => expect(of(sent, "RunWaits")).not.toHaveLength(0));
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(screen.queryByTestId("waits")).toBeNull();
  unmount();
  await show(<RunHeaderView />, { run: store({ ...run, runId: "still" }), answers: waits(SEQ, worker) });
  expect((await screen.findByTestId("waits")).textContent).toBe("The run waits for a worker.");
});

it("does not say that the engine has not started a run that started since the answer", async () => {
  const engine = { ...WAIT, kind: "ENGINE", message: "A server gives the run to the engine." };
  const before = { RunWaits: { run: { runSeq: 1, startedAt: null, waits: [engine] } } };
  const { sent } = await show(<RunHeaderView />, { run: store(RUNS["running"] ?? header()), answers: before });
  await vi.waitFor(() => expect(of(sent, "RunWaits")).not.toHaveLength(0));
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(screen.queryByTestId("waits")).toBeNull();
});

it("asks neither for waits nor for the doctor of a run that has ended", async () => {
  const completed = RUNS["completed"] ?? header();
  const { sent } = await show(
    <>
      <RunHeaderView />
      <RunFacts />
    </>,
    { run: store(completed) },
  );
  expect(of(sent, "RunWaits")).toEqual([]);
  expect(screen.queryByRole("button", { name: "Diagnose" })).toBeNull();
});

it("diagnoses an open run when somebody asks for it", async () => {
  const { user, sent } = await show(<RunFacts />, { run: store(RUNS["running"] ?? header()) });
  expect(of(sent, "RunCauses")).toEqual([]);
  await user.click(screen.getByRole("button", { name: "Diagnose" }));
  expect(await screen.findByText("Nothing holds the run up.", {}, LOADED)).toBeTruthy();
});

const TRIES = (...steps: string[]) =>
  steps.map((id) => ({
    ...WAIT,
    kind: "RETRY",
    until: new Date(NOW + 281_000).toISOString(),
    steps: [id],
    stepCount: 1,
    try: 3,
    tries: 5,
  }));

it("does not call a run running whose steps all wait for their next try", async () => {
  const run = { ...(RUNS["running"] ?? header()), runId: "resting" };
  const steps = ["load", "count"].map((id) => step(id, { status: "RUNNING", statusRaw: "RUNNING", completedAt: null }));
  await show(
    <RetriesProvider>
      <RunHeaderView />
    </RetriesProvider>,
    { run: store(run, {}, steps), answers: waits(SEQ, ...TRIES("load", "count")) },
  );
  const status = screen.getByTestId("run-status");
  await vi.waitFor(() => expect(status.textContent).toBe("Waiting to try again"));
  expect(screen.getByTestId("waits").textContent).toBe("load: try 3 of 5 in 4 m 41 s");
});

it("calls a run running of whose steps one works while others wait for their next try", async () => {
  const run = { ...(RUNS["running"] ?? header()), runId: "working" };
  const steps = ["load", "count"].map((id) => step(id, { status: "RUNNING", statusRaw: "RUNNING", completedAt: null }));
  const { sent } = await show(
    <RetriesProvider>
      <RunHeaderView />
    </RetriesProvider>,
    { run: store(run, {}, steps), answers: waits(SEQ, ...TRIES("load")) },
  );
  await vi.waitFor(() => expect(of(sent, "RunWaits")).not.toHaveLength(0));
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(screen.getByTestId("run-status").textContent).toBe("Running");
});
