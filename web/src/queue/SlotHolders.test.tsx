import { expect, it } from "vitest";
import { RUN } from "../testing/fixtures";
import { of, screen, show, vi } from "../testing/render";
import { SlotHolders } from "./SlotHolders";
import { slotsInWords, slotsOf } from "./slots";

const NODE = {
  runId: RUN,
  projectId: "shop",
  environmentId: "prod",
  status: "RUNNING",
  statusRaw: "RUNNING",
  substatus: "AWAITING_OPERATOR",
  plan: { planId: "nightly", planVersion: "1.4.2" },
  createdAt: "2026-11-21T03:00:00Z",
  startedAt: "2026-11-21T03:00:05Z",
  completedAt: null,
  rootCause: null,
  pause: null,
  stepCounts: {},
};

const FULL = [{ scope: "TENANT", active: 2, max: 2, projectId: "" }] as const;
const WAIT = {
  kind: "FAILED_WAITING",
  runId: RUN,
  deadline: "2026-11-21T04:00:00Z",
  actions: ["RETRY_STEP"],
  whoCould: [] as string[],
};

function holders(wait: object, slots: Parameters<typeof SlotHolders>[0]["slots"] = FULL, node: object = NODE) {
  return show(<SlotHolders slots={slots} held={slots.length === 0} every={60_000} />, {
    answers: {
      SlotHolders: {
        runs: { edges: [{ node }], pageInfo: { hasNextPage: false } },
        quotas: [{ projectId: null, active: 2, maxActive: 2 }],
      },
      RightHolders: { rightHolders: [{ action: "RESUME", names: ["dev-operator"], more: 0 }] },
      Waits: { attention: { edges: [{ node: wait }] } },
    },
  });
}

it("names the runs that hold the slots, since when, and that one waits for an operator", async () => {
  await holders(WAIT);
  await vi.waitFor(() =>
    expect(screen.getByText("2 of 2 slots in use. A waiting run starts when one of these runs ends.")).toBeDefined(),
  );
  await screen.findByRole("link", { name: "Retry or skip its failed step" });
  const item = screen.getByRole("listitem").textContent;
  for (const words of ["Failed, waiting", "nightly@1.4.2 01KAHW3V", "shop / PROD", "since 2026-11-21 03:00:05 UTC"])
    expect(item).toContain(words);
  expect(screen.getByRole("link", { name: "Retry or skip its failed step" }).getAttribute("href")).toBe(`/runs/${RUN}`);
  expect(screen.getByText("1 more run holds a slot that you may not see.")).toBeDefined();
});

it("names who can go on with a run instead of a link that the server would refuse, and until when", async () => {
  await holders({ ...WAIT, kind: "MANUAL_TASK", actions: ["CANCEL"], whoCould: ["dev-admin"] });
  const words = await screen.findByText("Waits for dev-admin");
  const item = words.closest("li");
  expect(item?.textContent).toContain("then the step fails: 2026-11-21 04:00:00 UTC");
  expect(screen.queryByRole("link", { name: "Complete its step" })).toBeNull();
});

it("offers to resume a paused run only to a person who may", async () => {
  await holders(WAIT, FULL, { ...NODE, status: "PAUSED", statusRaw: "PAUSED", substatus: null });
  await screen.findByText("Waits for dev-operator");
  expect(screen.queryByRole("link", { name: "Resume it" })).toBeNull();
});

it("keeps the holders in sight while new runs are on hold", async () => {
  await holders(WAIT, []);
  await screen.findByText("New runs are on hold; see the banner. These runs continue.");
  expect(screen.getByRole("listitem").textContent).toContain("nightly@1.4.2");
});

it("lists only the runs of the project whose limit keeps runs waiting", async () => {
  const { sent } = await holders(WAIT, [{ scope: "PROJECT", active: 1, max: 1, projectId: "ledger" }]);
  await screen.findByText(/Project ledger: 1 of 1 slot in use/);
  expect(of(sent, "SlotHolders")[0]).toMatchObject({ projectId: "ledger" });
});

it("lists all runs when the limit of the tenant is reached too", async () => {
  const { sent } = await holders(WAIT, [...FULL, { scope: "PROJECT", active: 1, max: 1, projectId: "ledger" }]);
  await screen.findByText(/Project ledger: 1 of 1 slot in use/);
  expect(of(sent, "SlotHolders")[0]).toMatchObject({ projectId: null });
});

it("lists each limit that keeps runs waiting once, and none of runs on hold", () => {
  const tenant = { scope: "TENANT", active: 2, max: 2 } as const;
  const project = { scope: "PROJECT", active: 1, max: 1 } as const;
  const entry = (projectId: string, slots: typeof tenant | typeof project | null, waitsFor = "PLACE" as const) => ({
    projectId,
    slots,
    waitsFor,
  });
  expect(slotsOf([entry("a", tenant), entry("b", tenant), entry("b", project), entry("c", null)])).toEqual([
    { ...tenant, projectId: "" },
    { ...project, projectId: "b" },
  ]);
  expect(slotsOf([{ ...entry("a", tenant), waitsFor: "HOLD" }])).toEqual([]);
});

it("explains more runs than slots", () => {
  expect(slotsInWords({ scope: "PROJECT", active: 8, max: 3, projectId: "shop" })).toBe(
    "Project shop: 8 runs are active, and the limit is 3. The limit was lowered while they ran; they continue. A waiting run starts when 6 of these runs have ended.",
  );
});
