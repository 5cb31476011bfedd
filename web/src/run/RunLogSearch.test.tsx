import { expect, it } from "vitest";
import { RUN } from "../testing/fixtures";
import { of, screen, show, vi } from "../testing/render";
import RunLogSearch from "./RunLogSearch";

const log = (stepId: string, runId = RUN) => ({
  node: {
    runId,
    runCreatedAt: "2026-11-21T03:08:00Z",
    stepId,
    stepName: null,
    attempt: 2,
    totalMatches: 7,
    partial: false,
    lines: [{ no: 12, text: "a needle in hay" }],
  },
});

it("finds a text in all logs of the run, links its lines, and searches on", async () => {
  const { user, sent } = await show(<RunLogSearch runId={RUN} />, {
    path: `/runs/${RUN}?view=logs&text=needle`,
    answers: {
      LogSearch: ({ after }: { after: string | null }) => ({
        logSearch: {
          edges: after === null ? [log("stg_orders")] : [],
          pageInfo: { endCursor: "c", hasNextPage: after === null },
        },
      }),
    },
  });
  const line = await screen.findByRole("link", { name: /needle in hay/ });
  const address = new URL(line.getAttribute("href") ?? "", location.href);
  expect(Object.fromEntries(address.searchParams)).toMatchObject({
    step: "stg_orders",
    tab: "log",
    line: "12",
    q: "needle",
  });
  expect(line.querySelector("mark")?.textContent).toBe("needle");
  expect(screen.getByText("7 matches")).toBeDefined();
  await user.click(screen.getByRole("button", { name: "Search on" }));
  await vi.waitFor(() => expect(screen.queryByRole("button", { name: "Search on" })).toBeNull());
  expect(of(sent, "LogSearch").map(({ in: within, after }) => [within, after])).toEqual([
    [{ runId: RUN }, null],
    [{ runId: RUN }, "c"],
  ]);
});

it("searches the plan's newest runs, and names the run of each log", async () => {
  const { user, sent } = await show(<RunLogSearch runId={RUN} />, {
    path: `/runs/${RUN}?view=logs&text=needle`,
    answers: {
      LogSearch: ({ in: within }: { in: object }) => ({
        logSearch: {
          edges: "plan" in within ? [log("stg_orders", "0199aaaa-0000-7000-8000-000000000000")] : [],
          pageInfo: { endCursor: null, hasNextPage: false },
        },
      }),
    },
  });
  expect(await screen.findByText(/No log contains/)).toBeDefined();
  await user.selectOptions(screen.getByRole("combobox", { name: "Where to search" }), "20");
  const line = await screen.findByRole("link", { name: /needle in hay/ });
  expect(line.getAttribute("href")).toContain("/runs/0199aaaa-0000-7000-8000-000000000000?");
  expect(of(sent, "LogSearch").at(-1)?.in).toMatchObject({ plan: { planId: "nightly", newest: 20 } });
});

it("offers to search in other letters what it did not find", async () => {
  const { user, sent } = await show(<RunLogSearch runId={RUN} />, {
    path: `/runs/${RUN}?view=logs&text=error`,
    answers: {
      LogSearch: ({ find }: { find: string }) => ({
        logSearch: {
          edges: find === "ERROR" ? [log("stg_orders")] : [],
          pageInfo: { endCursor: null, hasNextPage: false },
        },
      }),
    },
  });
  await screen.findByText(/No log contains/);
  expect(screen.getByRole("button", { name: "Search “Error”" })).toBeDefined();
  await user.click(screen.getByRole("button", { name: "Search “ERROR”" }));
  expect(await screen.findByRole("link", { name: /needle in hay/ })).toBeDefined();
  expect(of(sent, "LogSearch").at(-1)?.find).toBe("ERROR");
});
