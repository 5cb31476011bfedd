import { screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { of, show } from "../testing/render";
import { HealthPage } from "./HealthPage";

const NORMAL = {
  mode: "NORMAL",
  modeReason: null,
  modeSince: null,
  frozen: false,
  frozenReason: null,
  frozenSince: null,
  degraded: false,
  retryAfterMs: null,
  activeRuns: null,
  shareLinkHours: 0,
};
const check = (name: string) => ({ name, status: "HEALTHY", message: null, latencyMs: 2, configured: true });

const ANSWERS = {
  Health: { health: { status: "HEALTHY", checks: ["temporal", "stateStore", "eventBus"].map((name) => check(name)) } },
  Service: { service: NORMAL },
  Capabilities: { capabilities: [] },
  HealthHistory: { errors: [{ message: "no", extensions: { code: "FORBIDDEN" } }] },
};

async function page(service: Partial<Record<keyof typeof NORMAL, unknown>>, word?: string): Promise<string> {
  await show(<HealthPage />, {
    answers: { ...ANSWERS, Service: { service: { ...NORMAL, ...service } } },
  });
  await screen.findByText("State store");
  if (word !== undefined) await screen.findAllByText(word);
  return document.body.textContent;
}

test("a healthy installation says what each part means", async () => {
  const text = await page({});
  expect(text).toContain("Runs start and continue.");
  expect(text).not.toContain("No new run starts");
  expect(firstRow()).toContain("● Accepted");
});

/** The first row of the table, which answers the first question: do new runs start? */
function firstRow(): string {
  return screen.getAllByRole("row")[1]?.textContent ?? "";
}

test("the first row says why no new run starts, since when, and where to end it", async () => {
  const service = { mode: "READ_ONLY", modeReason: "move of the store", modeSince: "2026-11-28T01:18:00Z" };
  await page(service, "Read-only");
  for (const words of ["New runs", "Read-only", "move of the store", "Since 2026-11-28 01:18:00 UTC", "Admin, Service"])
    expect(firstRow()).toContain(words);
});

const WORKER = {
  account: "data",
  worker: "host/7",
  queue: "tq-data-prod",
  ok: true,
  live: true,
  overdue: false,
  drain: null,
};
const DRAIN = { actor: "sam", reason: "a new kernel" };

test.each([
  ["take steps", [WORKER], ["● Take steps", "Steps of programs start"]],
  [
    "are drained in part",
    [WORKER, { ...WORKER, worker: "host/8", drain: DRAIN }],
    ["◐ Drained", "data/host/8 was drained by sam: a new kernel.", "End the drain"],
  ],
  [
    "are all drained",
    [{ ...WORKER, drain: DRAIN }],
    ["✕ Drained", "data/host/7 was drained by sam", "Nobody serves tq-data-prod: its steps wait."],
  ],
  ["are silent", [{ ...WORKER, live: false }], ["✕ Take no steps", "Nobody serves tq-data-prod"]],
])("the row of the workers says that they %s", async (_, workers, words) => {
  await show(<HealthPage />, {
    viewer: { actions: new Set(["DEBUG"]) },
    answers: { ...ANSWERS, WorkerDrains: { workers } },
  });
  const row = (await screen.findByText("Workers", { selector: "td" })).closest("tr");
  for (const text of words) expect(row?.textContent).toContain(text);
});

test("nobody asks for the workers of somebody who may not see them", async () => {
  const { sent } = await show(<HealthPage />, { answers: ANSWERS });
  await screen.findByText("State store");
  expect(of(sent, "WorkerDrains")).toEqual([]);
});

test.each([
  ["read-only", { mode: "READ_ONLY" }, ["Read-only", "dvt is read-only: no new run starts", "nothing is published"]],
  ["drained", { mode: "DRAINED" }, ["Drained", "being drained: no new run starts here"]],
  ["frozen", { frozen: true }, ["Frozen", "your tenant is frozen"]],
  ["an engine that is too slow", { degraded: true }, ["Refuses new runs", "New runs are refused for now"]],
])("the head and the sentences follow the service: %s", async (_, service, words) => {
  const text = await page(service, words[0]);
  for (const word of words) expect(text).toContain(word);
  expect(text).not.toContain("Runs start and continue.");
  expect(text).not.toContain("Runs can be read and changed.");
});

const DESTINATION = {
  name: "crm",
  kind: "WEBHOOK",
  address: "https://crm.example.org",
  state: "SENDING",
  why: "It accepts messages.",
  since: null,
  disabledBy: null,
  beginsAt: null,
  lastSentAt: "2026-11-28T01:18:00Z",
  lastError: null,
  sent: 1,
  failed: 0,
  deadLetters: 0,
  droppedDeadLetters: 0,
  missedRuns: 0,
  waiting: 0,
  oldestWaitingAt: null,
  route: { text: "every event" },
};

test.each([
  ["get nothing", [DESTINATION, { ...DESTINATION, name: "lake", state: "FAILING" }], /◐ Not accepted1 of 2 .*: lake\./],
  [
    "refuse all",
    [{ ...DESTINATION, lastSentAt: null, deadLetters: 2858 }],
    /◐ Not accepted1 of 1 destination.*: crm\./,
  ],
  ["are disabled by a person", [{ ...DESTINATION, state: "DISABLED", disabledBy: "sam" }], /● Accepted/],
])("the row of the deliveries speaks of destinations that %s", async (_, destinations, row) => {
  await show(<HealthPage />, {
    viewer: { actions: new Set(["DEBUG"]) },
    answers: { ...ANSWERS, WorkerDrains: { workers: [] }, Destinations: { destinations } },
  });
  const found = (await screen.findByText("Deliveries", { selector: "td" })).closest("tr");
  expect(found?.textContent).toMatch(row);
  const said = document.body.textContent.includes("other systems do not get");
  expect(said).toBe(/Not accepted/.test(found?.textContent ?? ""));
  // The head says no more than the table.
  expect(document.body.textContent.includes("Needs a look: Deliveries")).toBe(said);
});
