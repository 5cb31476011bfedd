import { beforeEach, expect, it } from "vitest";
import { ANSWERS, available, header, RUNS, store } from "../testing/fixtures";
import { screen, show, vi } from "../testing/render";
import { CauseCard } from "./CauseCard";

beforeEach(() => sessionStorage.clear());

const NODES = { CauseNodes: { run: ANSWERS.data["run"] } };

it("names the failed step, its error, and the number of blocked steps", async () => {
  const { user, search } = await show(<CauseCard />, { run: store(header()), answers: NODES });
  const card = screen.getByRole("region", { name: "Root cause" });
  for (const word of ["stg_orders", "Retry #1", "DBT_TEST_FAILED", "a retry alone does not help"])
    expect(card.textContent).toContain(word);
  expect(screen.getByLabelText("What the step said").textContent).toContain("Got 3 results");
  await vi.waitFor(() => expect(card.textContent).toContain("3 dbt tests failed, 4 skipped"));
  expect(screen.getByTestId("held").textContent).toBe("Nothing new starts: 14 steps wait, all need this one.");
  await user.click(screen.getByRole("link", { name: "14 steps wait" }));
  await vi.waitFor(() => expect(search()).toMatchObject({ view: "steps", show: ["HELD"] }));
});

it("leads to the line of the log that says why, and copies the error", async () => {
  const { user, search } = await show(<CauseCard />, { run: store(header()), actions: { causeLine: 412 } });
  const link = screen.getByRole("link", { name: /^Log line 412/ });
  expect(link.getAttribute("aria-keyshortcuts")).toBe("l");
  await user.click(link);
  await vi.waitFor(() => expect(search()).toMatchObject({ step: "stg_orders", tab: "log" }));
  await user.click(screen.getByRole("button", { name: "Copy error" }));
  expect(await navigator.clipboard.readText()).toBe(
    "stg_orders\nDBT_TEST_FAILED\nnot_null_stg_orders_id: Got 3 results, configured to fail if != 0",
  );
});

it("says what a failure holds, not only what needs the failed step", async () => {
  const broken = header();
  const rootCause = broken.rootCause && { ...broken.rootCause, heldSteps: 150, blockedSteps: 2 };
  const { user, search } = await show(<CauseCard />, { run: store({ ...broken, rootCause }), answers: NODES });
  expect(screen.getByTestId("held").textContent).toBe("Nothing new starts: 150 steps wait, 2 of them need this one.");
  await user.click(screen.getByRole("link", { name: "2 of them need this one" }));
  await vi.waitFor(() => expect(search()).toMatchObject({ view: "steps", show: ["BLOCKED"] }));
});

it("says who cancelled a run and why, instead of a root cause", async () => {
  const { user, search } = await show(<CauseCard />, { run: store(RUNS["cancelled"] ?? header()) });
  expect(screen.queryByRole("region", { name: "Root cause" })).toBeNull();
  const card = screen.getByRole("region", { name: "Cancelled" });
  expect(card.textContent).toContain("Cancelled by ben: “wrong day”");
  expect(card.textContent).toContain("14 steps never started, because the run was cancelled");
  await user.click(screen.getByRole("link", { name: "Receipt" }));
  await vi.waitFor(() => expect(search()).toMatchObject({ view: "receipts" }));
});

it("is not there while nothing has failed", async () => {
  await show(
    <>
      <p>page</p>
      <CauseCard />
    </>,
    { run: store(RUNS["running"] ?? header()) },
  );
  expect(screen.queryByRole("region")).toBeNull();
});

it("quotes the line of the log that its button names, with the lines around it", async () => {
  const lines = [408, 409, 410, 411, 412, 413, 414].map((no) => ({
    no,
    at: "2026-11-21T03:08:00Z",
    stream: "stdout",
    text: `line ${no}`,
  }));
  const { sent } = await show(<CauseCard />, {
    run: store(header()),
    actions: { causeLine: 412 },
    answers: { ...NODES, StepLog: { stepLog: { lines } } },
  });
  const quote = await screen.findByLabelText("The log around line 412");
  expect(quote.textContent).toBe("410line 410411line 411412line 412413line 413414line 414");
  expect(quote.querySelector("[aria-current]")?.textContent).toBe("412line 412");
  expect(sent.find(({ name }) => name === "StepLog")?.variables).toMatchObject({ fromLine: 408, first: 7 });
});

it("does not say twice what the quoted log says", async () => {
  const broken = header();
  const message = "sh ended with exit status 1:   at load.py line 42";
  const rootCause = broken.rootCause && { ...broken.rootCause, message };
  const lines = [{ no: 184, at: "2026-11-21T03:08:00Z", stream: "stderr", text: "  at load.py line 42" }];
  await show(<CauseCard />, {
    run: store({ ...broken, rootCause }),
    actions: { causeLine: 184 },
    answers: { StepLog: { stepLog: { lines } } },
  });
  await screen.findByLabelText("The log around line 184");
  expect(screen.getByTitle("What the step said").textContent).toBe("sh ended with exit status 1");
});

it("names the model of a dbt error once, and leaves its report to the quoted log", async () => {
  const broken = header();
  const message = "model.shop.customers: Binder Error: no column nam\n  Candidate bindings: name\n  LINE 11: nam";
  const rootCause = broken.rootCause && { ...broken.rootCause, message };
  const lines = ["  Binder Error: no column nam", "  Candidate bindings: name"].map((text, i) => ({
    no: 40 + i,
    at: "2026-11-21T03:08:00Z",
    stream: "stderr",
    text,
  }));
  await show(<CauseCard />, {
    run: store({ ...broken, rootCause }),
    actions: { causeLine: 40 },
    answers: { ...NODES, StepLog: { stepLog: { lines } } },
  });
  await screen.findByLabelText("The log around line 40");
  expect(screen.getByTitle("What the step said").textContent).toBe("model.shop.customers");
  expect(screen.queryByLabelText("What the step said"), "it takes no lines of its own").toBeNull();
});

it("does not repeat the quoted line in the end that dvt wrote below it", async () => {
  const broken = header();
  const message = "/in/fix-me.txt is missing (last line; sh ended with exit status 1)";
  const rootCause = broken.rootCause && { ...broken.rootCause, message };
  const at = "2026-11-21T03:08:00Z";
  const lines = [
    { no: 1, at, stream: "stderr", text: "/in/fix-me.txt is missing" },
    { no: 2, at, stream: "dvt", text: `EXIT_STATUS: ${message}` },
  ];
  await show(<CauseCard />, {
    run: store({ ...broken, rootCause }),
    actions: { causeLine: 1 },
    answers: { StepLog: { stepLog: { lines } } },
  });
  const quote = await screen.findByLabelText("The log around line 1");
  expect(quote.textContent).toBe("1/in/fix-me.txt is missing2EXIT_STATUS: sh ended with exit status 1");
  expect(screen.queryByTitle("What the step said"), "the log says it").toBeNull();
});

it("keeps the place of five quoted lines when the log has fewer, so that the views below do not move", async () => {
  const lines = [900, 901].map((no) => ({ no, at: "2026-11-21T03:08:00Z", stream: "stdout", text: `line ${no}` }));
  const { user } = await show(<CauseCard />, {
    run: store(header()),
    actions: { causeLine: 901 },
    answers: { ...NODES, StepLog: { stepLog: { lines } } },
  });
  const place = screen.getByLabelText("What the step said").parentElement;
  expect(place?.dataset["reserved"]).toBe("true");
  expect(place?.contains(await screen.findByLabelText("The log around line 901"))).toBe(true);
  expect(place?.dataset["reserved"]).toBe("true");
  await user.click(screen.getByRole("button", { name: "Less" }));
  expect(place?.dataset["reserved"]).toBeUndefined();
});

it("does not call the error of a run that has ended retryable", async () => {
  const over = header({ status: "FAILED" });
  const rootCause = over.rootCause && { ...over.rootCause, retryable: true };
  await show(<CauseCard />, { run: store({ ...over, rootCause }), answers: NODES });
  expect(screen.getByRole("region", { name: "Root cause" }).textContent).not.toMatch(/a retry (can|alone)/);
});

it("says in sight why the viewer may not retry, and who may", async () => {
  const denied = available("RETRY_STEP", {
    outcome: "REFUSED",
    code: "FORBIDDEN",
    reason: "You need the ENGINEER role on shop / prod to retry a step.",
    requiredRole: "ENGINEER",
    whoCould: ["dev-admin", "dev-engineer"],
  });
  await show(<CauseCard />, {
    run: store(header()),
    actions: { step: () => new Map([["RETRY_STEP", denied] as const]) },
  });
  expect(screen.getByTestId("may-not-retry").textContent).toBe(
    "You need the Engineer role on shop / prod to retry a step. Who can do this: dev-admin, dev-engineer.",
  );
});

it("is one line, which says the error, in a view that needs the height of the window", async () => {
  const lines = [{ no: 183, at: "2026-11-21T03:08:00Z", stream: "stderr", text: "ERROR: relation does not exist" }];
  const { user } = await show(<CauseCard brief />, {
    run: store(header()),
    actions: { causeLine: 183 },
    answers: { ...NODES, StepLog: { stepLog: { lines } } },
  });
  expect(screen.queryByLabelText("What the step said")).toBeNull();
  await vi.waitFor(() => expect(screen.getByTestId("cause-line").textContent).toBe("ERROR: relation does not exist"));
  expect(screen.getByRole("link", { name: /^Log line 183/ })).toBeDefined();
  expect(screen.queryByTestId("held"), "nothing takes a second line").toBeNull();
  await user.click(screen.getByRole("button", { name: "More" }));
  expect(screen.getByLabelText("What the step said")).toBeDefined();
});

it("says nothing of other failed steps when there is none", async () => {
  await show(<CauseCard />, { run: store(header({ failedSteps: 1 })), answers: NODES });
  expect(screen.getByText(/Last success/)).toBeDefined();
  expect(screen.queryByText(/Also failed/)).toBeNull();
});

it("folds beside an open step, and is whole again without it", async () => {
  const first = await show(<CauseCard folded />, { run: store(header()), answers: NODES });
  expect(screen.queryByText(/Last success/)).toBeNull();
  expect(screen.getByTestId("held")).toBeDefined();
  first.unmount();
  await show(<CauseCard />, { run: store(header()), answers: NODES });
  expect(screen.getByText(/Last success/)).toBeDefined();
});

it("stays folded on later visits once a person folded it", async () => {
  const first = await show(<CauseCard />, { run: store(header()), answers: NODES });
  await first.user.click(screen.getByRole("button", { name: "Less" }));
  first.unmount();
  const { user } = await show(<CauseCard />, { run: store(header()), answers: NODES });
  expect(screen.queryByText(/Last success/)).toBeNull();
  await user.click(screen.getByRole("button", { name: "More" }));
  expect(screen.getByText(/Last success/)).toBeDefined();
});

it("does not remember a fold in a view that opens the card folded", async () => {
  const first = await show(<CauseCard brief />, { run: store(header()), answers: NODES });
  await first.user.click(screen.getByRole("button", { name: "More" }));
  await first.user.click(screen.getByRole("button", { name: "Less" }));
  first.unmount();
  await show(<CauseCard />, { run: store(header()), answers: NODES });
  expect(screen.getByText(/Last success/)).toBeDefined();
});
