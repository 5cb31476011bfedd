import type { Page } from "@playwright/test";
import { ask, receiptsOf } from "./api";
import { type Fault, frames, inject } from "./faults";
import { layered } from "./large";
import { expectFits, violations, violationsOfBoth } from "./look";
import { become, cancelRun, expect, sleeps, startRun, status, sync, test, visit } from "./page";

const ONCE = { maxAttempts: 1, initialBackoffMs: 100, backoffMultiplier: 1, maxBackoffMs: 100 };
const FAILING = [
  ...sleeps(100, 2),
  {
    stepId: "stg_orders",
    type: "COMMAND" as const,
    dependsOn: ["sleep_2"],
    inputs: { argv: ["ls", "/no/such/file"] },
    retry: ONCE,
  },
  { stepId: "orders", type: "NOOP" as const, dependsOn: ["stg_orders"], inputs: {} },
];
const LISTS = [
  "inbox",
  "queue",
  "dlq",
  "audit",
  "admin/tokens",
  "admin/policy",
  "admin/quotas",
  "admin/service",
  "health",
  "workers",
  "alerts",
  "incidents",
  "deliveries",
];
/** The pages that only an SRE may see; others are told so without a question to the server. */
const OF_SRE = ["workers", "deliveries"];
/** What a page says in each state, whatever page it is. */
const SAYS: Record<Exclude<Fault, "signed-out">, RegExp> = {
  loading: /./,
  empty: /./,
  error: /This could not be loaded/,
  forbidden: /You may not see this/,
};

/**
 * In the light by every rule of axe, in the dark by its colours; no sideways scroll where it is narrow and where it is
 * wide.
 */
async function readsWell(page: Page, name: string): Promise<void> {
  expect.soft(await violationsOfBoth(page), name).toEqual([]);
  for (const width of [320, 2560, 1440]) {
    await page.setViewportSize({ width, height: 900 });
    await expectFits(page, `${name} at ${width}`);
  }
}

async function allReadWell(page: Page, paths: string[]): Promise<void> {
  for (const path of paths) {
    await visit(page, path);
    await settled(page);
    await readsWell(page, path);
  }
}

/** What a page shows instead of what it is for: the gallery has it in the dark. */
async function saysWell(page: Page, name: string): Promise<void> {
  expect.soft(await violations(page, "all", "main"), name).toEqual([]);
  await expectFits(page, name);
}

async function settled(page: Page): Promise<void> {
  await expect(page.getByRole("navigation").first()).toBeVisible();
  await expect(page.locator("main")).not.toBeEmpty();
  await expect(page.locator("main").getByRole("status", { name: /^Loading/ })).toHaveCount(0);
}

test("33 38 every view of a run, of now and of its past", async ({ page, url }) => {
  const runId = await startRun(url, "e2e-looks", FAILING);
  await page.goto(`${url}/runs`);
  await become(page, "dev-admin");
  const views = ["timeline", "steps", "events", "receipts", "artifacts", "details"].map((view) => `?view=${view}`);
  for (const view of ["", "?step=stg_orders", "?step=stg_orders&tab=inputs", ...views, "?at=4", "?at=4&diff=6"]) {
    await page.goto(`${url}/runs/${runId}${view}`);
    if (!view.startsWith("?at")) await expect(status(page)).toHaveText("Failed, waiting");
    await settled(page);
    await readsWell(page, `runs/RUN${view}`);
  }
});

test("33 38 the pages of runs, plans and bulk actions with what they have", async ({ page, url }) => {
  const other = await startRun(url, "e2e-looks", FAILING);
  const runId = await startRun(url, "e2e-looks", FAILING);
  // Its name and its version are cut in the list.
  const noop = [{ stepId: "look", type: "NOOP" as const, inputs: {} }];
  await startRun(url, "e2e-looks-at-a-name-without-room-beside", noop, "dev", "2026.11.22-rc.11-0123456789abcdef");
  await page.goto(`${url}/runs`);
  await become(page, "dev-admin");
  const asked = "mutation Bulk($input: SignalRunsInput!) { signalRuns(input: $input) { bulk { id } } }";
  const input = {
    requestId: `looks-${runId}`,
    runs: { ids: [runId] },
    action: { signal: { resume: {} } },
    reason: "it stands",
    expectedCount: 1,
  };
  const { signalRuns } = await ask<{ signalRuns: { bulk: { id: string } } }>(url, "dev-admin", asked, { input });
  await expect.poll(async () => (await receiptsOf(url, runId)).length).toBe(1);
  await allReadWell(page, [
    "",
    "runs",
    "plans",
    "plans/e2e-looks?project=shop&env=dev",
    "plans/e2e-looks/steps/stg_orders?project=shop&env=dev",
    `compare?a=${runId}&b=${other}`,
    "runs?cols=env,steps,started,ended,took,by,tags,cause&sort=left",
    "start",
    "bulk",
    `bulk/${signalRuns.bulk.id}`,
  ]);
});

for (const [which, paths] of Object.entries({
  "for work": LISTS.slice(0, 4),
  "of administrators": LISTS.slice(4, 8),
  "about the installation": LISTS.slice(8),
  "that are not there": ["no/such/page", "runs/01JNOSUCHRUN0000000000000"],
}))
  test(`33 38 the pages ${which} with what they have`, async ({ page, url }) => {
    const runId = await startRun(url, "e2e-looks", FAILING);
    await page.goto(`${url}/runs/${runId}`);
    await become(page, "dev-admin");
    await expect(status(page)).toHaveText("Failed, waiting");
    await allReadWell(page, paths);
  });

test("33 38 the mosaic and the palette", async ({ page, url }) => {
  const runId = await startRun(url, "e2e-looks-mosaic", layered(320, 20, 1_000, 600_000));
  await page.goto(`${url}/runs/${runId}`);
  await expect(page.locator("[data-cells]")).toBeVisible();
  await readsWell(page, "mosaic");
  await page.keyboard.press("Control+k");
  await expect(page.getByRole("dialog")).toBeVisible();
  await readsWell(page, "palette");
  await cancelRun(url, runId);
});

for (const fault of ["loading", "empty", "error", "forbidden"] as const) {
  test(`33 every page that lists: ${fault}`, async ({ page, url }) => {
    for (const [who, paths] of [
      ["dev-admin", LISTS.filter((path) => !OF_SRE.includes(path))],
      ["dev-sre", OF_SRE],
    ] as const) {
      await page.setViewportSize({ width: 1440, height: 900 });
      await page.goto(`${url}/runs`);
      await become(page, who);
      await page.setViewportSize({ width: 320, height: 900 });
      const end = await inject(page, fault);
      for (const path of paths) {
        await page.goto(`${url}/${path}`);
        if (fault === "loading")
          await expect(
            page
              .locator("main")
              .getByRole("status", { name: /^Loading/ })
              .first(),
          ).toBeVisible();
        else await settled(page);
        await expect.soft(page.locator("main"), path).toContainText(SAYS[fault]);
        await saysWell(page, `${path}, ${fault}`);
      }
      await end();
    }
  });
}

test("33 who is not signed in sees how to sign in, over the address that was asked for", async ({ page, url }) => {
  await inject(page, "signed-out");
  await page.goto(`${url}/audit?outcome=DENIED`);
  await expect(page.getByText("Sign in to dvt")).toBeVisible();
  await saysWell(page, "signed out");
  await expect(page).toHaveURL(/audit\?outcome=DENIED/);
});

for (const [state, reason] of [
  ["STALE", "STORE_DOWN"],
  ["RESYNCING", "GAP"],
  ["VERIFYING", "RECONNECTED"],
] as const) {
  test(`33 a run and the runs that are not known to be true: ${state}`, async ({ page, url }) => {
    const runId = await startRun(url, "e2e-stale", FAILING);
    await frames(page, state, reason);
    for (const path of [`runs/${runId}`, "runs"]) {
      await page.goto(`${url}/${path}`);
      await expect(sync(page).first()).toContainText(new RegExp(state, "i"));
      await saysWell(page, `${path.replace(runId, "RUN")}, ${state}`);
    }
  });
}

test("30 another tenant's address answers word for word as a random one", async ({ page, url }) => {
  const runId = await startRun(url, "e2e-tenant", sleeps(100, 1));
  await page.goto(`${url}/runs`);
  await become(page, "dev-mallory");
  const read = async (id: string, rest: string): Promise<string> => {
    await page.goto(`${url}/runs/${id}${rest}`);
    await expect(page.getByText("There is nothing here, or you cannot see it.")).toBeVisible();
    return [await page.title(), await page.locator("main").innerHTML()].join("\n").replaceAll(id, "ID");
  };
  for (const rest of ["", "?view=events", "?step=sleep_1&tab=log", "?at=3"]) {
    expect(await read(runId, rest), rest).toBe(await read("01JNOSUCHRUN0000000000000", rest));
  }
});
