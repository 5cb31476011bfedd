import { expect, it } from "vitest";
import { header, RUNS, store } from "../testing/fixtures";
import { refused, screen, show, vi } from "../testing/render";
import { DoctorLine, RunCauses } from "./RunDoctor";
import type { Cause } from "./useCauses";

const CAUSE: Cause = {
  code: "DEPENDENCY_UNREACHABLE",
  kind: "FAULT",
  confidence: "LIKELY",
  title: "Something that the step needs does not answer.",
  stepIds: ["stg_orders"],
  moreSteps: 2,
  since: "2026-11-21T03:08:00Z",
  until: null,
  evidence: [
    {
      source: "EVENT",
      text: "EXIT_STATUS: refused",
      runSeq: 41,
      stepId: "stg_orders",
      logicalAttemptId: 1,
      line: null,
      page: "/runs/r1?view=events&seq=41",
      metric: null,
    },
    {
      source: "OUTPUT",
      text: "refused",
      runSeq: null,
      stepId: "stg_orders",
      logicalAttemptId: 1,
      line: 12,
      page: "/runs/r1?step=stg_orders&attempt=1&tab=log&line=12",
      metric: null,
    },
  ],
  next: [
    { text: "Bring it back.", signalType: null, stepId: null, safe: false, force: false },
    { text: "After that, retry the step.", signalType: "RETRY_STEP", stepId: "stg_orders", safe: true, force: false },
  ],
};

const target = (name: string): string | null => screen.getByRole("link", { name }).getAttribute("href");
const causes = (...diagnosis: Cause[]) => ({ RunCauses: { run: { diagnosis } } });

it("says the first cause in a line, and lists all with evidence and next steps on demand", async () => {
  const { user, search } = await show(<DoctorLine header={header()} />, {
    run: store(header()),
    answers: causes(CAUSE, {
      ...CAUSE,
      code: "RUN_PAUSED",
      kind: "WAIT",
      title: "The run is paused by ben.",
      next: [],
    }),
  });
  expect((await screen.findByTestId("doctor")).textContent).toContain(CAUSE.title);
  expect(screen.queryByRole("list"), "calm until somebody asks").toBeNull();
  await user.click(screen.getByRole("button", { name: "What to do" }));
  const list = screen.getByRole("list", { name: "Causes, what must be mended first first" });
  for (const words of [
    "fault, likely",
    "and 2 more",
    "Event, seq 41EXIT_STATUS: refused",
    "Output, line 12refused",
    "The run is paused by ben.",
  ])
    expect(list.textContent).toContain(words);
  await user.click(screen.getAllByRole("link", { name: "Output, line 12" })[0] as HTMLElement);
  await vi.waitFor(() => expect(search()).toMatchObject({ step: "stg_orders", attempt: 1, tab: "log", line: 12 }));
  await user.click(screen.getAllByRole("link", { name: "Event, seq 41" })[0] as HTMLElement);
  await vi.waitFor(() => expect(search()).toMatchObject({ view: "events", seq: 41 }));
});

it("opens the preview of a signal, and marks it as safe only when the server says so", async () => {
  const { user, act } = await show(<DoctorLine header={header()} />, {
    run: store(header()),
    answers: causes(CAUSE, {
      ...CAUSE,
      title: "The worker was lost.",
      next: [{ text: "Retry it by force.", signalType: "RETRY_STEP", stepId: "load", safe: false, force: true }],
    }),
  });
  await user.click(await screen.findByRole("button", { name: "What to do" }));
  const [first] = screen.getAllByRole("button", { name: "Retry step…" });
  await user.click(first as HTMLElement);
  expect(act).toHaveBeenCalledWith("RETRY_STEP", "stg_orders");
  expect(screen.getAllByText("safe")).toHaveLength(1);
  expect(screen.getAllByText("needs force")).toHaveLength(1);
});

it("links each fact to the page that shows it, and names its metric", async () => {
  const fact = { runSeq: null, stepId: null, logicalAttemptId: null, line: null, metric: null };
  const { user } = await show(<DoctorLine header={header()} />, {
    run: store(header()),
    answers: causes({
      ...CAUSE,
      evidence: [
        { ...fact, source: "WORKERS", text: "3 tasks wait.", page: "/workers", metric: "engine_queue_backlog" },
        { ...fact, source: "HEALTH", text: "No answer.", page: "/health" },
        { ...fact, source: "QUEUE", text: "One more must approve.", page: "/runs/r1" },
        { ...fact, source: "HISTORY", text: "Run r0 completed.", page: "/compare?a=r0&b=r1" },
        { ...fact, source: "ENGINE", text: "No heartbeat.", stepId: "load", page: "/runs/r1?step=load" },
      ],
    }),
  });
  await user.click(await screen.findByRole("button", { name: "What to do" }));
  expect(target("Workers")).toBe("/workers");
  expect(target("Health")).toBe("/health");
  expect(target("Earlier runs")).toContain("/compare?a=r0&b=r1");
  expect(target("Engine")).toContain("step=load");
  expect(screen.queryByRole("link", { name: "Queue" })).toBeNull();
  expect(screen.getByText("engine_queue_backlog")).toBeTruthy();
});

it("is calm when nothing is wrong, and says when it does not answer", async () => {
  const running = RUNS["running"] ?? header();
  await show(<RunCauses header={running} />, { run: store(running), answers: causes() });
  expect(await screen.findByText("Nothing holds the run up.")).toBeTruthy();
  expect(screen.queryByRole("list")).toBeNull();
  const other = header({ runId: "down" });
  await show(<DoctorLine header={other} />, {
    run: store(other),
    answers: { RunCauses: refused("STORE_UNAVAILABLE", "The store is down.") },
  });
  expect(await screen.findByText("The doctor does not answer now.")).toBeTruthy();
});

it("says who can end a wait that is too short for a cause", async () => {
  const running = { ...(RUNS["running"] ?? header()), runId: "waits" };
  const wait = {
    kind: "QUOTA",
    since: "2026-11-21T03:08:00Z",
    until: null,
    message: "Heavy steps wait.",
    help: "Somebody who may change quotas can help.",
    whoCould: ["ana"],
  };
  await show(<RunCauses header={running} />, {
    run: store(running),
    answers: { ...causes(), RunWaits: { run: { runSeq: 1, startedAt: wait.since, waits: [wait] } } },
  });
  expect(
    await screen.findByText("Heavy steps wait. Somebody who may change quotas can help. Who can: ana."),
  ).toBeTruthy();
});
