import { within } from "@testing-library/react";
import { expect, it } from "vitest";
import { of, refused, screen, show, vi } from "../testing/render";
import { AlertList } from "./AlertList";
import type { Alert } from "./order";
import { OpenAlerts } from "./OpenAlerts";
import { RunAlerts } from "./RunAlerts";

function alert(more: Partial<Alert>): Alert {
  return {
    id: "a1",
    level: "HIGH",
    stage: "OPEN",
    code: "TIMEOUT",
    note: "load runs 12 minutes longer than all its tries.",
    meaning: "An attempt took longer than its timeout.",
    whatToDo: "Look at the step and its worker.",
    installation: false,
    projectId: "shop",
    environmentId: "dev",
    planId: "nightly",
    runId: "r1",
    stepId: "load",
    subject: null,
    shared: false,
    actor: "dvt",
    count: 3,
    raisedAt: "2026-11-21T02:12:07Z",
    lastSeenAt: "2026-11-21T02:15:07Z",
    resolvedAt: null,
    resolution: null,
    acknowledgedAt: null,
    acknowledgedBy: null,
    acknowledgement: null,
    silencedUntil: null,
    whoCould: ["eve"],
    page: "/runs/r1",
    ...more,
  };
}

it("names the plan and where it runs, and no count of one", async () => {
  await show(<AlertList alerts={[alert({ count: 1 })]} changed={() => {}} />, { viewer: MAY });
  const item = (await screen.findByRole("listitem")).textContent;
  expect(item).toContain("nightly shop / dev · raised");
  expect(item).not.toContain("found 1 time");
});

const MAY = { actions: new Set(["ANNOTATE"] as const) };
const HOLDERS = {
  RightHolders: {
    rightHolders: [{ action: "ANNOTATE", needs: "You need the Operator role.", names: ["eve"], more: false }],
  },
};

const page = (nodes: Alert[]) => ({
  alerts: { pageInfo: { hasNextPage: false }, edges: nodes.map((node) => ({ node })) },
});

it("counts the open alerts on the home page", async () => {
  await show(
    <>
      home <OpenAlerts />
    </>,
    { answers: { AlertCount: { viewer: { alertCount: 3 } } } },
  );
  expect((await screen.findByRole("link", { name: "3 open alerts" })).getAttribute("href")).toBe("/alerts");
});

it("lists what is open before what is taken on, the gravest first, with what to do and who can help", async () => {
  await show(
    <AlertList
      alerts={[
        alert({ id: "taken", stage: "ACKNOWLEDGED", acknowledgedBy: "ben", acknowledgedAt: "2026-11-21T02:20:00Z" }),
        alert({ id: "low", level: "LOW", meaning: "Low one." }),
        alert({ id: "high" }),
      ]}
      changed={() => {}}
    />,
    { answers: HOLDERS },
  );
  const items = screen.getAllByRole("listitem");
  expect(items.map((item) => within(item).getByRole("strong").textContent)).toEqual([
    "An attempt took longer than its timeout.",
    "Low one.",
    "An attempt took longer than its timeout.",
  ]);
  expect(items[0]?.textContent).toContain("found 3 times");
  expect(items[0]?.textContent).toContain("What to do: Look at the step and its worker.");
  expect(items[0]?.textContent).toContain("Who can help: eve");
  expect(items[2]?.textContent).toContain("Acknowledged by ben");
  expect(within(items[2] as HTMLElement).queryByRole("button", { name: /^Acknowledge/ })).toBeNull();
});

it("acknowledges an alert with a note, and reads the list again", async () => {
  const changed = vi.fn();
  const { user, sent } = await show(<AlertList alerts={[alert({})]} changed={changed} />, {
    viewer: MAY,
    answers: { AcknowledgeAlert: { acknowledgeAlert: { alert: { id: "a1" } } } },
  });
  await user.click(screen.getByRole("button", { name: /^Acknowledge: / }));
  await user.type(screen.getByLabelText(/^Note/), "mine");
  await user.click(screen.getByRole("button", { name: "Acknowledge" }));
  await vi.waitFor(() => expect(changed).toHaveBeenCalled());
  expect(of(sent, "AcknowledgeAlert")).toMatchObject([{ input: { id: "a1", note: "mine" } }]);
});

it("an alert about the installation cannot be silenced", async () => {
  await show(<AlertList alerts={[alert({ installation: true, projectId: null, runId: null })]} changed={() => {}} />, {
    answers: HOLDERS,
  });
  expect(screen.queryByRole("button", { name: /^Silence/ })).toBeNull();
});

it("a run shows how many alerts are open and the gravest level, and lists them on demand", async () => {
  const { user } = await show(<RunAlerts runId="r1" />, {
    answers: {
      ...HOLDERS,
      Alerts: page([
        alert({ id: "low", level: "LOW", meaning: "Low one." }),
        alert({}),
        alert({ id: "taken", stage: "ACKNOWLEDGED", meaning: "Taken one." }),
      ]),
    },
  });
  await user.click(await screen.findByRole("button", { name: "2 alerts, high" }));
  const list = within(screen.getByRole("dialog", { name: "Alerts of this run" }));
  expect(list.getAllByRole("strong").map((title) => title.textContent)).toEqual([
    "An attempt took longer than its timeout.",
    "Low one.",
    "Taken one.",
  ]);
});

it("a run whose alerts somebody has taken on shows none", async () => {
  const { sent } = await show(
    <>
      <p>The page.</p>
      <RunAlerts runId="r3" />
    </>,
    { answers: { ...HOLDERS, Alerts: page([alert({ stage: "ACKNOWLEDGED" })]) } },
  );
  await vi.waitFor(() => expect(of(sent, "Alerts")).not.toHaveLength(0));
  expect(screen.queryByRole("button")).toBeNull();
});

it("stays silent when alerts cannot be read", async () => {
  const { sent } = await show(
    <>
      <p>The page.</p>
      <RunAlerts runId="r2" />
    </>,
    { answers: { ...HOLDERS, Alerts: refused("UNAVAILABLE", "down") } },
  );
  await vi.waitFor(() => expect(of(sent, "Alerts")).not.toHaveLength(0));
  expect(screen.queryByRole("button")).toBeNull();
});
