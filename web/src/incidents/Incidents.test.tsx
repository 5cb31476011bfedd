import { within } from "@testing-library/react";
import { expect, it } from "vitest";
import { of, screen, show, vi } from "../testing/render";
import { byUrgency, type Incident } from "./incident";
import { type Act, IncidentDialog } from "./IncidentDialogs";
import { IncidentView } from "./IncidentView";
import { RunIncident } from "./RunIncident";

function incident(more: Partial<Incident>): Incident {
  return {
    id: "i1",
    severity: "SEV_2",
    code: "STEP_STUCK",
    title: "load hangs for 20 minutes.",
    whatToDo: "Look at the step and its worker.",
    runbook: "https://example.org/stuck-run.md",
    installation: false,
    projectId: "shop",
    environmentId: "prod",
    runId: "r1",
    openedAt: "2026-11-21T02:12:07Z",
    acknowledgedAt: null,
    acknowledgedBy: null,
    closedAt: null,
    closedBy: null,
    alerts: 3,
    openAlerts: 2,
    ...more,
  };
}

const CHANGE = {
  action: "X",
  requestId: "q",
  actor: "ana",
  at: "2026-11-21T02:20:00Z",
  version: null,
  versionBefore: null,
};

it("puts open incidents first, the worst first, and the newest of a severity", () => {
  const rows = [
    incident({ id: "closed", severity: "SEV_0", closedAt: "2026-11-21T04:00:00Z", closedBy: "ana" }),
    incident({ id: "old" }),
    incident({ id: "new", openedAt: "2026-11-21T03:00:00Z" }),
    incident({ id: "worst", severity: "SEV_1", openedAt: "2026-11-20T00:00:00Z" }),
  ];
  expect(rows.toSorted(byUrgency).map(({ id }) => id)).toEqual(["worst", "new", "old", "closed"]);
});

async function dialog(act: Act, more: Partial<Incident> = {}) {
  const done = vi.fn();
  const payload = { change: CHANGE };
  const view = await show(<IncidentDialog incident={incident(more)} act={act} done={done} close={() => {}} />, {
    answers: {
      AcknowledgeIncident: { acknowledgeIncident: payload },
      NoteIncident: { noteIncident: payload },
      CloseIncident: { closeIncident: payload },
      SetIncidentSeverity: { setIncidentSeverity: payload },
    },
  });
  return { ...view, done };
}

it("is taken on without a note, and taken over from somebody who has it", async () => {
  const { user, sent, done } = await dialog("acknowledge", { acknowledgedBy: "ben" });
  expect(screen.getByRole("dialog").textContent).toContain("ben has it.");
  await user.click(screen.getByRole("button", { name: "Take it over" }));
  await vi.waitFor(() => expect(done).toHaveBeenCalled());
  expect(of(sent, "AcknowledgeIncident")).toMatchObject([{ input: { id: "i1", note: "" } }]);
});

it("is closed only with its cause, and says which alerts are still open", async () => {
  const { user, sent, done } = await dialog("close");
  expect(screen.getByRole("dialog").textContent).toContain("2 of its alerts are still open: the trouble may go on.");
  expect(screen.getByRole("button", { name: "Close" })).toHaveProperty("disabled", true);
  await user.type(screen.getByLabelText(/What the cause was/), "the disk was full");
  await user.click(screen.getByRole("button", { name: "Close" }));
  await vi.waitFor(() => expect(done).toHaveBeenCalled());
  expect(of(sent, "CloseIncident")).toMatchObject([{ input: { note: "the disk was full" } }]);
});

it("offers every other severity with its meaning, and sends the chosen one with the reason", async () => {
  const { user, sent, done } = await dialog("severity");
  const choice = screen.getByLabelText("Severity");
  expect(within(choice).queryByRole("option", { name: /Severity 2/ })).toBeNull();
  await user.selectOptions(choice, within(choice).getByRole("option", { name: /Severity 1: dvt is down/ }));
  await user.type(screen.getByLabelText(/Why/), "all runs stand still");
  await user.click(screen.getByRole("button", { name: "Change the severity" }));
  await vi.waitFor(() => expect(done).toHaveBeenCalled());
  expect(of(sent, "SetIncidentSeverity")).toMatchObject([
    { input: { severity: "SEV_1", note: "all runs stand still" } },
  ]);
});

it("a run with an open incident links to it, and says who has it", async () => {
  await show(<RunIncident runId="r1" />, {
    answers: { RunIncidents: { incidents: { edges: [{ node: incident({ acknowledgedBy: "ben" }) }] } } },
  });
  const link = await screen.findByRole("link", { name: "Incident severity 2" });
  expect(link.getAttribute("href")).toBe("/incidents/i1");
  expect(link.getAttribute("title")).toContain("Taken on by ben");
});

const NOTES = [
  { at: "2026-11-21T02:20:00Z", actor: "ben", act: "SEVERITY", severity: "SEV_1", text: "all runs stand still" },
  { at: "2026-11-21T02:30:00Z", actor: "ana", act: "ACKNOWLEDGE", severity: null, text: "" },
];

async function view(more: Partial<Incident>, actions: readonly string[] = ["ANNOTATE"]) {
  return await show(<IncidentView incidentId="i1" />, {
    viewer: { actions: new Set(actions) as never },
    answers: {
      Incident: { incident: { ...incident(more), notes: NOTES }, incidentAlerts: [] },
      RightHolders: { rightHolders: [{ needs: "You need the Operator role.", names: ["eve"], more: false }] },
    },
  });
}

it("shows what happened in its order, what to do, and the way to the run and to the runbook", async () => {
  await view({ severity: "SEV_1" });
  await screen.findByText("Nobody has taken it on.");
  expect(screen.getAllByRole("listitem").map(({ textContent }) => textContent)).toEqual([
    expect.stringContaining("The incident was opened"),
    expect.stringMatching(/ben set it to severity 1.*all runs stand still/),
    expect.stringContaining("ana took it on"),
  ]);
  expect(document.body.textContent).toContain("shop / PROD · 2 of 3 alerts open");
  expect(document.body.textContent).toContain("What to do: Look at the step and its worker.");
  expect(screen.getByRole("link", { name: "Open the run r1" }).getAttribute("href")).toBe("/runs/r1");
  expect(screen.getByRole("link", { name: "Open the runbook" }).getAttribute("href")).toContain("stuck-run.md");
});

it("refuses its buttons to those who may not act, and says who may", async () => {
  await view({}, []);
  const button = await screen.findByRole("button", { name: "Close…" });
  expect(button.getAttribute("aria-disabled")).toBe("true");
  await screen.findByText(/You need the Operator role\. .*eve/);
});

it("an incident that the viewer has cannot be taken on again", async () => {
  await view({ acknowledgedBy: "ana", acknowledgedAt: "2026-11-21T02:30:00Z" });
  await screen.findByRole("button", { name: "Add a note…" });
  expect(screen.queryByRole("button", { name: /^Take it/ })).toBeNull();
});
