import { expect, it } from "vitest";
import { RUN } from "../testing/fixtures";
import { screen, show, vi } from "../testing/render";
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

it("names the runs that hold the slots, since when, and that one waits for an operator", async () => {
  const answer = {
    runs: { edges: [{ node: NODE }], pageInfo: { hasNextPage: false } },
    quotas: [{ projectId: null, active: 2, maxActive: 2 }],
  };
  await show(<SlotHolders slots={[{ scope: "TENANT", active: 2, max: 2, projectId: "" }]} every={60_000} />, {
    answers: { SlotHolders: answer },
  });
  await vi.waitFor(() => expect(screen.getByText("2 of 2 slots in use.")).toBeDefined());
  const item = screen.getByRole("listitem").textContent;
  for (const words of ["Failed, waiting", "nightly@1.4.2 01KAHW3V", "shop / PROD", "since 2026-11-21 03:00:05 UTC"])
    expect(item).toContain(words);
  expect(screen.getByRole("link", { name: "Retry or skip its failed step" }).getAttribute("href")).toBe(`/runs/${RUN}`);
  expect(screen.getByText("1 more run holds a slot that you may not see.")).toBeDefined();
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
    "Project shop: 8 runs are active, and the limit is 3. It was lowered while they ran; they go on, and the next run starts when 6 of them have ended.",
  );
});
