import { expect, it } from "vitest";
import { of, screen, show, vi } from "../testing/render";
import { ErasurePanel } from "./ErasurePanel";

const CHANGE = {
  action: "X",
  requestId: "r",
  actor: "ana",
  at: "2026-11-21T03:00:00Z",
  version: null,
  versionBefore: null,
};

const ASKED = {
  id: "e1",
  kind: "SUBJECT",
  subject: "ola",
  reason: "by letter",
  requestedBy: "ben",
  requestedAt: "2026-11-21T03:00:00Z",
  expiresAt: "2026-11-28T03:00:00Z",
  confirmedBy: null,
  confirmedAt: null,
  cancelledBy: null,
  cancelledAt: null,
  startedAt: null,
  phase: null,
  finishedAt: null,
  waitsFor: "SECOND_PERSON",
  holds: 0,
  dueAt: "2026-12-21T03:00:00Z",
  openWork: [],
  openWorkCount: 0,
  openWorkAt: null,
  erased: [],
  certificate: null,
};

const CONFIRMED = { ...ASKED, confirmedBy: "ana", confirmedAt: "2026-11-22T03:00:00Z" };

const PREVIEW = {
  kind: "SUBJECT",
  erased: [{ place: "table api_token", count: 2, more: false }],
  remaining: [{ place: "table run", count: 100000, more: true }],
  holds: 1,
  missing: ["erasure-ledger"],
};

async function panel(erasure: object, actions: ("SET_POLICY" | "READ_AUDIT")[] = ["SET_POLICY", "READ_AUDIT"]) {
  const view = await show(<ErasurePanel />, {
    viewer: { principal: "ana", tenantId: "acme", actions: new Set(actions) },
    answers: {
      Erasures: { erasures: { edges: [{ node: erasure }], pageInfo: { endCursor: null, hasNextPage: false } } },
      PreviewErasure: { preview: PREVIEW },
      RequestErasure: { requestErasure: { erasure: { id: "e2" }, change: CHANGE } },
      DecideErasure: { decideErasure: { change: CHANGE } },
      RightHolders: { rightHolders: [{ action: "SET_POLICY", needs: "", names: [], more: false }] },
    },
  });
  await screen.findByRole("region", { name: "Requests" });
  return view;
}

const requests = () => screen.getByRole("region", { name: "Requests" }).textContent;

it("counts what an erasure would do, and asks for it with the name typed", async () => {
  const { user, sent } = await panel(ASKED);
  await user.type(screen.getByLabelText("Principal"), " ola ");
  await user.click(screen.getByRole("button", { name: "Count what it would erase" }));
  await screen.findByText(/lacks the setting erasure-ledger/);
  const text = document.body.textContent;
  for (const part of ["1 legal hold forbids this", "table api_token", "more than 100,000", "name replaced"])
    expect(text).toContain(part);
  expect(of(sent, "RequestErasure")).toEqual([]);
  await user.click(screen.getByRole("button", { name: "Ask to erase…" }));
  await user.type(screen.getByLabelText(/^Reason/), "by letter");
  await user.type(screen.getByLabelText(/to confirm/), "ola");
  await user.click(screen.getByRole("button", { name: "Ask to erase" }));
  await vi.waitFor(() =>
    expect(of(sent, "RequestErasure")).toMatchObject([
      { input: { subject: "ola", tenantId: "acme", reason: "by letter" } },
    ]),
  );
});

it("confirms what another person asked for", async () => {
  const { user, sent } = await panel(ASKED);
  expect(requests()).toContain("Waits for another person");
  await user.click(screen.getByRole("button", { name: "Confirm the erasure of ola" }));
  await user.type(screen.getByLabelText(/^Reason/), "checked");
  await user.type(screen.getByLabelText(/to confirm/), "ola");
  await user.click(screen.getByRole("button", { name: "Confirm" }));
  await vi.waitFor(() =>
    expect(of(sent, "DecideErasure")).toMatchObject([{ input: { id: "e1", confirm: true, reason: "checked" } }]),
  );
});

it("lets nobody confirm their own request, and cancels it", async () => {
  const { user, sent } = await panel({ ...ASKED, requestedBy: "ana" });
  expect(screen.getByRole("button", { name: "Confirm the erasure of ola" }).getAttribute("aria-disabled")).toBe("true");
  await user.click(screen.getByRole("button", { name: "Cancel the erasure of ola" }));
  await user.type(screen.getByLabelText(/^Reason/), "withdrawn");
  await user.click(screen.getByRole("button", { name: "Cancel it" }));
  await vi.waitFor(() => expect(of(sent, "DecideErasure")).toMatchObject([{ input: { confirm: false } }]));
});

it.each([
  [{ ...CONFIRMED, waitsFor: "OWNER" }, "dvt store erase e1 --config owner.yaml --yes"],
  [{ ...CONFIRMED, waitsFor: "LEGAL_HOLD", holds: 2 }, "2 legal holds forbid this"],
  [{ ...ASKED, waitsFor: "ANOTHER_REQUEST" }, "Expired without a confirmation"],
  [
    {
      ...CONFIRMED,
      waitsFor: null,
      startedAt: "2026-11-23T03:00:00Z",
      phase: "ROWS",
      erased: [{ place: "table bulk", count: 1200 }],
    },
    "deleting rows (phase 3 of 10, 1,200 erased so far)",
  ],
  [{ ...ASKED, waitsFor: null, cancelledBy: "ana", cancelledAt: "2026-11-23T03:00:00Z" }, "Cancelled"],
])("says what it waits for: %#", async (erasure, says) => {
  await panel(erasure);
  expect(requests()).toContain(says);
  expect(screen.queryByRole("button", { name: "Confirm the erasure of ola" })).toBeNull();
});

it("lists the open runs that it waits for, where they stand, and what to do then", async () => {
  const run = { runId: "0d3c77e1-6a52", bulkId: null, planId: "nightly", projectId: "shop", environmentId: "prod" };
  const none = { planId: null, projectId: null, environmentId: null, status: null };
  await panel({
    ...CONFIRMED,
    waitsFor: "OPEN_WORK",
    startedAt: "2026-11-23T03:00:00Z",
    phase: "OPEN",
    openWork: [
      { ...run, status: "PAUSED" },
      { ...run, ...none, runId: "gone-1" },
      { ...none, runId: null, bulkId: "b1" },
    ],
    openWorkCount: 25,
    openWorkAt: "2026-11-24T03:00:00Z",
  });
  for (const part of ["25 runs and bulks", "Paused, nightly, shop/prod", "gone", "Bulk b1", "and 22 more", "ends none"])
    expect(requests()).toContain(part);
  expect(screen.getByTitle("0d3c77e1-6a52").getAttribute("href")).toBe("/runs/0d3c77e1-6a52");
  expect(requests()).toContain("dvt store erase e1 --config owner.yaml --yes");
});

it("shows the certificate of one that ended, which names nobody", async () => {
  const { user } = await panel({
    ...CONFIRMED,
    subject: null,
    requestedBy: null,
    confirmedBy: null,
    waitsFor: null,
    startedAt: "2026-11-23T03:00:00Z",
    finishedAt: "2026-11-23T04:00:00Z",
    phase: "CERTIFY",
    erased: [{ place: "keys", count: 3 }],
    certificate: '{"erasure":"e1"}',
  });
  expect(requests()).toContain("an erased person");
  await user.click(screen.getByRole("button", { name: "Certificate: e1" }));
  expect(screen.getByRole("dialog").textContent).toContain('"erasure": "e1"');
  expect(screen.getByRole("button", { name: "Download" })).toBeTruthy();
});

it("offers nothing that the viewer may not do", async () => {
  const { user } = await panel(ASKED, ["READ_AUDIT"]);
  await user.type(screen.getByLabelText("Principal"), "ola");
  await user.click(screen.getByRole("button", { name: "Count what it would erase" }));
  const ask = await screen.findByRole("button", { name: "Ask to erase…" });
  expect(ask.getAttribute("aria-disabled")).toBe("true");
});
