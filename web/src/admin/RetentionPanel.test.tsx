import { expect, it } from "vitest";
import { RunArchived } from "../history/RunArchived";
import { of, screen, show, vi } from "../testing/render";
import { RetentionPanel } from "./RetentionPanel";

const CHANGE = {
  action: "X",
  requestId: "r",
  actor: "ana",
  at: "2026-11-21T03:00:00Z",
  version: 4,
  versionBefore: 3,
};

const POLICY = {
  version: 3,
  own: { archiveRuns: 30 },
  actor: "ana",
  reason: "a month",
  at: "2026-11-21T03:00:00Z",
  days: {
    archiveRuns: 30,
    deleteArchives: 0,
    stepLogs: 14,
    receipts: 90,
    deadLetters: 30,
    alerts: 1,
    audit: 2557,
    artifacts: [{ kind: "custom", days: 90 }],
  },
};

const PASS = {
  startedAt: "2026-11-21T03:00:00Z",
  endedAt: "2026-11-21T03:01:00Z",
  archived: 12480,
  archivedBytes: 41000000000,
  deletedEvents: 2,
  deleted: 3,
  removedObjects: 4,
  deletedRows: 5,
  cutRecords: 8,
  held: 6,
  waiting: 7,
  failed: 1,
  overdueSince: "2026-11-20T10:00:00Z",
  error: "run r1: the bucket is full",
};

const HOLD = {
  id: "h1",
  kind: "PLAN",
  subject: "sales",
  reason: "case 12",
  placedBy: "ana",
  placedAt: "2026-11-21T03:00:00Z",
  liftedBy: null,
  liftedAt: null,
  liftedFor: null,
};

const page = (nodes: unknown[]) => ({
  edges: nodes.map((node) => ({ node })),
  pageInfo: { endCursor: null, hasNextPage: false },
});

async function panel(
  actions: ("SET_POLICY" | "READ_AUDIT")[] = ["SET_POLICY", "READ_AUDIT"],
  artifacts: { kind: string; days: number }[] = POLICY.days.artifacts,
) {
  const view = await show(<RetentionPanel />, {
    viewer: { actions: new Set(actions) },
    answers: {
      Retention: { retentionPolicy: { ...POLICY, days: { ...POLICY.days, artifacts }, lastPass: PASS } },
      RetentionHistory: { retentionHistory: page([{ ...POLICY, changed: ["+ step logs: 14 days"] }]) },
      PreviewRetention: { preview: { changed: ["+ step logs: 9 days"], warnings: ["Moves 5 runs."] } },
      SetRetention: { setRetention: { change: CHANGE } },
      LegalHolds: { legalHolds: page([HOLD, { ...HOLD, id: "h2", kind: "RUN", subject: "r-held" }]) },
      PlaceHold: { placeHold: { change: CHANGE } },
      LiftHold: { liftHold: { change: CHANGE } },
      RightHolders: { rightHolders: [{ action: "SET_POLICY", needs: "", names: [], more: false }] },
    },
  });
  await screen.findByText("All runs of plan sales");
  return view;
}

const answer = (archive: unknown) => ({ answers: { RunArchive: { run: { archive } } } });

it("says how long each thing lives and what the last pass did", async () => {
  await panel();
  const text = document.body.textContent;
  for (const part of [
    "Version 3 of this tenant's policy",
    "30 days",
    "1 day",
    "2,557 days",
    "for ever",
    "Artifacts: custom",
  ])
    expect(text).toContain(part);
  expect(text).toContain("12,480");
  expect(text).toContain("The first failure: run r1: the bucket is full");
});

it("says in one sentence that nothing is deleted, instead of in each row", async () => {
  const days = {
    archiveRuns: 0,
    deleteArchives: 0,
    stepLogs: 0,
    receipts: 0,
    deadLetters: 0,
    alerts: 0,
    audit: 0,
    artifacts: [],
  };
  await show(<RetentionPanel />, {
    answers: {
      Retention: { retentionPolicy: { ...POLICY, days, lastPass: null } },
      RetentionHistory: { retentionHistory: page([]) },
      LegalHolds: { legalHolds: page([]) },
      RightHolders: { rightHolders: [] },
    },
  });
  await screen.findByText(/^Nothing is deleted/);
  expect(screen.queryByText("Step logs")).toBeNull();
});

it("says that artifacts stay when no kind has a number of days", async () => {
  await panel(undefined, []);
  const row = screen.getByText("Artifacts by kind").closest("tr");
  expect(row?.textContent).toContain("for ever");
});

it("places a hold on one thing, with a reason", async () => {
  const { user, sent } = await panel();
  await user.click(screen.getByRole("button", { name: "Place a hold…" }));
  await user.selectOptions(screen.getByLabelText("Covers"), "SUBJECT");
  await user.type(screen.getByLabelText("Which one"), " ola ");
  await user.type(screen.getByLabelText(/^Reason/), "case 12");
  await user.click(screen.getByRole("button", { name: "Place a hold" }));
  await vi.waitFor(() =>
    expect(of(sent, "PlaceHold")).toMatchObject([{ input: { kind: "SUBJECT", subject: "ola", reason: "case 12" } }]),
  );
});

it("links the run that a hold covers", async () => {
  await panel();
  expect(screen.getByRole("link", { name: "Run r-held" }).getAttribute("href")).toBe("/runs/r-held");
  expect(screen.queryByRole("link", { name: "All runs of plan sales" })).toBeNull();
});

it("lifts a hold by its id", async () => {
  const { user, sent } = await panel();
  await user.click(screen.getByRole("button", { name: "Lift the hold on sales" }));
  await user.type(screen.getByLabelText(/^Reason/), "closed");
  await user.click(screen.getByRole("button", { name: "Lift" }));
  await vi.waitFor(() => expect(of(sent, "LiftHold")).toMatchObject([{ input: { id: "h1", reason: "closed" } }]));
});

it("offers nothing that the viewer may not do", async () => {
  await panel([]);
  for (const name of ["Edit…", "Place a hold…", "Lift the hold on sales"])
    expect(screen.getByRole("button", { name }).getAttribute("aria-disabled")).toBe("true");
});

it("marks an archived run, and no other", async () => {
  const { unmount } = await show(<RunArchived runId="r1" />, answer({ at: "2026-11-21T03:00:00Z", events: 7 }));
  expect((await screen.findByTestId("run-archived")).title).toContain("is in the archive");
  unmount();
  await show(
    <p>
      <RunArchived runId="r2" />
      text
    </p>,
    answer(null),
  );
  await screen.findByText("text");
  expect(screen.queryByTestId("run-archived")).toBeNull();
});
