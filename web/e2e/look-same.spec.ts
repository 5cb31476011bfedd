// Equal content looks equal: two loads of a page, and a moment in two zones.
import { randomBytes } from "node:crypto";
import type { Browser, Page } from "@playwright/test";
import { ask } from "./api";
import { inject } from "./faults";
import { difference } from "./look";
import { cancelRun, expect, signIn, sleeps, startRun, test } from "./page";
import { limitProject, requireApproval } from "./policy";

const SIZES = [
  { width: 360, height: 740 },
  { width: 768, height: 900 },
  { width: 1440, height: 900 },
];
/** What tells when this load was answered, and how fast: two loads differ in it. */
const OF_THIS_LOAD = '[data-testid="sync"] > span { display: none !important }';

function id(): string {
  return `e2e-${randomBytes(8).toString("hex")}`;
}

async function statusOf(url: string, runId: string): Promise<string> {
  const { run } = await ask<{ run: { status: string; substatus: string | null } }>(
    url,
    "dev-admin",
    "query S($runId: String!) { run(runId: $runId) { status substatus } }",
    { runId },
  );
  return run.substatus ?? run.status;
}

/** A page of this principal, at a time that stands. */
async function open(browser: Browser, url: string, principal: string, now: Date, zone = "UTC"): Promise<Page> {
  const context = await browser.newContext({
    baseURL: url,
    bypassCSP: true,
    reducedMotion: "reduce",
    timezoneId: zone,
  });
  await signIn(context, principal);
  const page = await context.newPage();
  await page.clock.setFixedTime(now);
  return page;
}

async function settled(page: Page, says: RegExp): Promise<void> {
  await expect(page.locator("body")).toContainText(says);
  await expect(page.getByRole("status", { name: /^Loading/ })).toHaveCount(0);
  const chip = page.locator("[data-testid=sync][data-state]");
  if ((await chip.count()) > 0) await expect(chip.first()).toHaveAttribute("data-state", "LIVE");
}

async function picture(page: Page): Promise<Buffer> {
  // What is laid out by its width is laid out in the frame after.
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
  return page.screenshot({ animations: "disabled", style: OF_THIS_LOAD });
}

test("40 two loads of each page are the same picture, in both themes and at three widths", async ({ browser, url }) => {
  const over = await startRun(url, "e2e-same", sleeps(50, 4));
  await expect.poll(() => statusOf(url, over)).toBe("COMPLETED");
  const sent = "mutation Bulk($input: SignalRunsInput!) { signalRuns(input: $input) { bulk { id } } }";
  const input = {
    requestId: id(),
    runs: { ids: [over] },
    action: { signal: { pause: {} } },
    reason: "it is over",
    expectedCount: 1,
  };
  const { signalRuns } = await ask<{ signalRuns: { bulk: { id: string } } }>(url, "dev-admin", sent, { input });
  await expect
    .poll(() => ask(url, "dev-admin", "query B($id: ID!) { bulk(id: $id) { state } }", { id: signalRuns.bulk.id }))
    .toEqual({ bulk: { state: "DONE" } });
  await requireApproval(url, "e2e-same", 1);
  const asking = await startRun(url, "e2e-same", sleeps(50, 1), "e2e-same");
  await expect.poll(() => statusOf(url, asking)).toBe("PENDING");
  await limitProject(url, { maxActive: 0 });
  const waiting = await startRun(url, "e2e-same", sleeps(50, 1));
  await expect.poll(() => statusOf(url, waiting)).toBe("QUEUED");
  const letter = {
    id: "a",
    projectId: "shop",
    runId: over,
    fromSeq: 0,
    toSeq: 2,
    attempts: 10,
    cause: "410 Gone",
    buriedAt: "2026-11-21T02:11:00Z",
    redrivenAt: null,
  };
  const letters = {
    data: { deadLetters: { edges: [{ node: letter }], pageInfo: { endCursor: null, hasNextPage: false } } },
  };

  const now = new Date();
  const blank = await browser.newPage();
  const admin = [await open(browser, url, "dev-admin", now), await open(browser, url, "dev-admin", now)];
  // The bus of `dvt dev` refuses nothing: its letter is written here.
  for (const page of admin)
    await page.route("**/graphql", (route) =>
      /query DeadLetters\b/.test(route.request().postData() ?? "")
        ? route.fulfill({ json: letters })
        : route.fallback(),
    );
  const viewer = [await open(browser, url, "dev-viewer", now), await open(browser, url, "dev-viewer", now)];
  const nobody = [await open(browser, url, "dev-admin", now), await open(browser, url, "dev-admin", now)];
  for (const page of nobody) await inject(page, "signed-out");

  const problems: string[] = [];
  const same = async (name: string, pages: Page[], path: string, says: RegExp): Promise<void> => {
    await Promise.all(
      pages.map(async (page) => {
        await page.goto(path);
        await settled(page, says).catch((cause: unknown) => problems.push(`${name}: ${String(cause).slice(0, 1500)}`));
      }),
    );
    // Both themes of one load: a theme is a matter of styles.
    for (const colorScheme of ["light", "dark"] as const) {
      await Promise.all(pages.map((page) => page.emulateMedia({ colorScheme })));
      for (const size of SIZES) {
        await Promise.all(pages.map((page) => page.setViewportSize(size)));
        // Late content comes to both; a difference that stays fails.
        let pictures: Buffer[] = [];
        const differs = async (): Promise<number> => {
          pictures = await Promise.all(pages.map(picture));
          const [a, b] = pictures;
          return a && b ? difference(blank, a, b) : 1;
        };
        const title = `${name}, ${colorScheme}, ${size.width} px`;
        try {
          await expect.poll(differs, { message: title }).toBeLessThanOrEqual(0.001);
        } catch (cause) {
          for (const body of pictures) await test.info().attach(title, { body, contentType: "image/png" });
          problems.push(String(cause));
        }
      }
    }
  };

  await same("runs", admin, "/runs?plan=e2e-same", new RegExp(waiting.slice(0, 8)));
  await same("run", admin, `/runs/${over}`, /Completed/);
  await same("start", admin, "/start", /Start a run/);
  await same("inbox", admin, "/inbox?show=all", new RegExp(asking.slice(0, 8)));
  await same("bulk", admin, `/bulk/${signalRuns.bulk.id}`, /RUN_TERMINAL/);
  await same("queue", admin, "/queue", new RegExp(waiting.slice(0, 8)));
  await same("dead letters", admin, "/dlq", /410 Gone/);
  await same("audit", admin, "/audit", /SET_QUOTA|Set/i);
  await same("admin", admin, "/admin/policy", /version \d/);
  await same("health", admin, "/health", /Store/i);
  await same("sign-in", nobody, "/audit", /Sign in to dvt/);
  await same("not found", admin, "/no/such/page", /There is no page at/);
  await same("forbidden", viewer, "/admin/policy", /You may not see this/);

  expect(problems).toEqual([]);
  await limitProject(url, null);
  await cancelRun(url, asking);
  for (const page of [...admin, ...viewer, ...nobody]) await page.context().close();
  await blank.close();
});

test("40 the times of every axis are the same moments in UTC and in Asia/Kolkata", async ({ browser, url }) => {
  const runId = await startRun(url, "e2e-axes", sleeps(150, 4));
  await expect.poll(() => statusOf(url, runId)).toBe("COMPLETED");
  const query =
    "query T($runId: String!) { run(runId: $runId) { startedAt completedAt events(first: 4) { edges { node { runSeq emittedAt } } } } }";
  const { run } = await ask<{
    run: {
      startedAt: string;
      completedAt: string;
      events: { edges: { node: { runSeq: number; emittedAt: string } }[] };
    };
  }>(url, "dev-admin", query, { runId });
  const [began, ended] = [Date.parse(run.startedAt), Date.parse(run.completedAt)];
  const { runSeq, emittedAt } = run.events.edges.at(-1)?.node ?? { runSeq: 0, emittedAt: "" };
  const now = new Date();
  const page = await open(browser, url, "dev-admin", now, "Asia/Kolkata");
  for (const [zone, timeZone] of [
    ["utc", "UTC"],
    ["local", "Asia/Kolkata"],
  ] as const) {
    const clock = (at: number): string => new Date(at).toLocaleTimeString("en-GB", { timeZone, hourCycle: "h23" });
    const day = (at: number): string => `${new Date(at).toLocaleDateString("en-CA", { timeZone })} ${clock(at)}`;

    // Where a time of the timeline stands is when it was.
    await page.goto(`/runs/${runId}?view=timeline&tz=${zone}`);
    const axis = page.getByRole("columnheader", { name: /^Time \(/ });
    await expect(axis.locator("time").nth(2)).toBeVisible();
    const ticks = await axis.locator("time").evaluateAll((times) =>
      times.map((time) => ({
        text: time.textContent ?? "",
        left: parseFloat((time as HTMLElement).style.left) / 100,
      })),
    );
    for (const { text, left } of ticks)
      expect.soft(text.slice(0, 8), `timeline, ${zone}`).toBe(clock(began + left * (ended - began) + 1));

    // The bars end now, and began a day ago.
    await page.goto(`/runs?plan=e2e-axes&tz=${zone}`);
    await expect
      .soft(page.locator("figcaption > span"))
      .toHaveText([
        day(now.getTime() - 86_400_000).slice(0, 16),
        /1 run/,
        `${day(now.getTime()).slice(0, 16)} ${zone === "local" ? "UTC+5:30" : "UTC"}`,
      ]);
    const bars = await page.locator("figure title").allTextContents();
    expect(bars).toHaveLength(96);
    for (const [i, bar] of bars.entries())
      expect.soft(bar, `bar ${i}, ${zone}`).toContain(day(now.getTime() - 86_400_000 + i * 900_000));

    // The slider names the moment of its position.
    await page.goto(`/runs/${runId}?at=${runSeq}&tz=${zone}`);
    await expect(page.getByLabel("Position in the log")).toHaveValue(String(runSeq));
    await expect
      .soft(page.getByTestId("past"))
      .toContainText(`Viewing seq ${runSeq}, ${clock(Date.parse(emittedAt))} ${zone === "utc" ? "UTC" : "Asia/"}`);
  }
  await page.context().close();
});
