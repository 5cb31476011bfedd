import { gzipSync } from "node:zlib";
import { signal } from "./api";
import { takes } from "./held";
import { become, cancelRun, expect, signIn, sleeps, startRun, status, sync, test } from "./page";
import { requireApproval } from "./policy";

const KB = 1000;
const PHONE = { width: 360, height: 740 };
/** 1,280 by 1,024 at 400 % (WCAG 1.4.10). */
const ZOOMED = { width: 320, height: 256 };
const BROKEN = [
  {
    stepId: "stg_orders",
    type: "COMMAND" as const,
    inputs: { argv: ["ls", "/no/such/file"] },
    retry: { maxAttempts: 1, initialBackoffMs: 100, backoffMultiplier: 1, maxBackoffMs: 100 },
  },
];

test("11 the first page is small, comes from one origin, and runs nothing unsafe", async ({ page, url }) => {
  // A tenant without runs also loads the page that says how to begin.
  await startRun(url, "e2e-first", sleeps(50, 1));
  const sizes = { js: 0, css: 0 };
  const elsewhere: string[] = [];
  const bodies: Promise<void>[] = [];
  page.on("request", (request) => {
    if (!request.url().startsWith("data:") && new URL(request.url()).origin !== url) elsewhere.push(request.url());
  });
  page.on("response", (response) => {
    const kind = /\.(js|css)$/.exec(new URL(response.url()).pathname)?.[1];
    if (kind !== "js" && kind !== "css") return;
    bodies.push(response.body().then((body) => void (sizes[kind] += gzipSync(body).length)));
  });
  // What is fetched ahead of time begins after three seconds of the page's own time, which the first page does not
  // take.
  await page.clock.install();
  await page.clock.pauseAt(Date.now() + 1_000);
  const document = await page.goto(`${url}/runs`);
  expect(await takes(page, async () => (await sync(page).filter({ hasText: "Live" }).count()) > 0)).toBeLessThan(3_000);
  await Promise.all(bodies);
  expect(sizes.js).toBeLessThanOrEqual(200 * KB);
  expect(sizes.css).toBeLessThanOrEqual(20 * KB);
  expect(sizes.js).toBeGreaterThan(50 * KB);
  expect(elsewhere).toEqual([]);
  const policy = document?.headers()["content-security-policy"] ?? "";
  expect(policy).toContain("default-src 'none'");
  expect(policy).not.toContain("unsafe-");
  expect(policy).toContain("require-trusted-types-for 'script'");
});

test("12 nothing on a page moves while it loads", async ({ page, url }) => {
  const runId = await startRun(url, "e2e-shift", sleeps(50, 3));
  // The doctor and an alert speak on the page of this one. Its log has as many lines as the page quotes.
  const lines = "echo reads; echo joins; echo 'ERROR: no table orders' >&2; echo ends; echo closes; exit 1";
  const failed = await startRun(url, "e2e-shift-failed", [
    { ...BROKEN[0], stepId: "load", type: "COMMAND", inputs: { argv: ["sh", "-c", lines] } },
  ]);
  // The log of this one is shorter than what the page quotes.
  const brief = await startRun(url, "e2e-shift-brief", BROKEN);
  await page.goto(`${url}/runs/${failed}`);
  // A failure that happens while a page loads may move it, because it changes what the page says.
  await expect(status(page)).toHaveText("Failed, waiting");
  await signal(url, "dev-system", failed, { escalateAlert: { level: "HIGH", note: "look at this" } });
  await page.addInitScript(() => {
    interface Shift extends PerformanceEntry {
      value: number;
      sources: { node: Node | null; previousRect: DOMRect; currentRect: DOMRect }[];
    }
    new PerformanceObserver((list) => {
      const moved = JSON.parse(sessionStorage.getItem("moved") ?? "[]") as { value: number; what: string[] }[];
      for (const { value, sources } of list.getEntries() as Shift[]) {
        const what = sources.map(
          ({ node, previousRect: from, currentRect: to }) =>
            `${node?.nodeName} “${node?.textContent?.slice(0, 60)}” ${from.x},${from.y} to ${to.x},${to.y}`,
        );
        moved.push({ value, what });
      }
      sessionStorage.setItem("moved", JSON.stringify(moved));
    }).observe({ type: "layout-shift", buffered: true });
  });
  const plan = "e2e-shift?project=shop&env=dev";
  const step = "e2e-shift/steps/sleep_1?project=shop&env=dev";
  for (const path of [
    "",
    "runs",
    "runs?cols=steps,tags,cause",
    `runs/${runId}`,
    `runs/${failed}`,
    `runs/${brief}`,
    `plans/${plan}`,
    `plans/${step}`,
    `compare?a=${runId}&b=${runId}`,
    "queue",
    "audit",
    "inbox",
    "health",
    "workers",
    "incidents",
    "admin/policy",
  ]) {
    await page.goto(`${url}/${path}`);
    await page.evaluate(() => sessionStorage.setItem("moved", "[]"));
    await page.reload();
    await expect(page.getByRole("navigation").first()).toBeVisible();
    await expect(page.locator("main").getByRole("status", { name: /^Loading/ })).toHaveCount(0);
    await page.waitForTimeout(300);
    const moved = JSON.parse((await page.evaluate(() => sessionStorage.getItem("moved"))) ?? "[]") as {
      value: number;
      what: string[];
    }[];
    const total = moved.reduce((sum, { value }) => sum + value, 0);
    expect.soft(total, `${path}: ${JSON.stringify(moved, null, 1)}`).toBeLessThanOrEqual(0.02);
  }
  await Promise.all([cancelRun(url, failed), cancelRun(url, brief)]);
});

test("12 a wait that arrives moves nothing below the bar of a narrow page", async ({ page, url }) => {
  const runId = await startRun(url, "e2e-wait", sleeps(60_000, 1));
  let waits: unknown[] = [];
  await page.route("**/graphql", async (route) => {
    if (!route.request().postData()?.includes("query RunWaits")) return route.continue();
    const data = { run: { runSeq: 1_000_000, startedAt: "2026-11-21T02:12:07Z", waits } };
    return route.fulfill({ json: { data } });
  });
  await page.setViewportSize({ width: 640, height: 800 });
  await page.clock.install();
  await page.goto(`${url}/runs/${runId}`);
  await expect(status(page)).toHaveText("Running");
  const facts = page.getByText("started by dev-engineer");
  const before = (await facts.boundingBox())?.y;
  const message = "No worker of the queue tq-data-prod takes steps: the last one was heard of 12 minutes ago.";
  waits = [{ kind: "WORKER", since: null, until: null, message, help: "", whoCould: [] }];
  await page.clock.runFor(11_000);
  await expect(page.getByTestId("waits")).toContainText(message);
  expect((await facts.boundingBox())?.y).toBe(before);
  await cancelRun(url, runId);
});

for (const [name, viewport] of [
  ["360 px", PHONE],
  ["400 %", ZOOMED],
] as const) {
  test(`38 a failed step is retried, and a run approved, at ${name}`, async ({ page, url }) => {
    const broken = await startRun(url, "e2e-phone", BROKEN);
    await page.setViewportSize(viewport);
    await page.goto(`${url}/runs/${broken}`);
    await expect(status(page)).toHaveText("Failed, waiting");
    await page.getByRole("button", { name: "Retry step…" }).first().click();
    await page
      .getByRole("dialog")
      .getByLabel(/Reason/)
      .fill("from the train");
    await page.getByRole("dialog").getByRole("button", { name: "Retry step" }).click();
    await expect(page.locator('[data-receipt="RETRY_STEP"]').first()).toContainText(/Applied at seq \d+/);

    await requireApproval(url, "e2e-approved", 1);
    const waiting = await startRun(url, "e2e-phone", sleeps(50, 1), "e2e-approved");
    await signIn(page.context(), "dev-planner");
    await page.goto(`${url}/inbox`);
    await page.getByRole("button", { name: new RegExp(`^Approve.*${waiting.slice(0, 8)}`) }).click();
    await page
      .getByRole("dialog")
      .getByRole("button", { name: /Approve/ })
      .click();
    await page.goto(`${url}/runs/${waiting}`);
    await expect(status(page)).toHaveText("Completed");
    await cancelRun(url, broken);
  });
}

test("40 every time on a page is the same moment in UTC and in Asia/Kolkata", async ({ browser, url }) => {
  const runId = await startRun(url, "e2e-times", sleeps(60, 4));
  const page = await browser.newPage({ timezoneId: "Asia/Kolkata" });
  await signIn(page.context(), "dev-admin");
  await page.goto(url);
  await become(page, "dev-admin");
  const shown = async (path: string, zone: "utc" | "local"): Promise<{ at: string; text: string }[]> => {
    await page.goto(`${url}/${path}${path.includes("?") ? "&" : "?"}tz=${zone}`);
    await expect(page.getByRole("navigation").first()).toBeVisible();
    await expect(page.locator("main").getByRole("status", { name: /^Loading/ })).toHaveCount(0);
    await expect(page.locator("main")).toContainText(/\d{2}:\d{2}:\d{2}/);
    return page
      .locator("main time")
      .evaluateAll((times) =>
        times.map((time) => ({ at: time.getAttribute("datetime") ?? "", text: time.textContent ?? "" })),
      );
  };
  let compared = 0;
  const clock = /\d{2}:\d{2}:\d{2}/;
  for (const path of [`runs/${runId}`, `runs/${runId}?view=events`, `runs/${runId}?view=timeline`, "audit", "queue"]) {
    for (const [zone, name] of [
      ["utc", "UTC"],
      ["local", "Asia/Kolkata"],
    ] as const) {
      for (const { at, text } of await shown(path, zone)) {
        const read = clock.exec(text)?.[0];
        if (read === undefined) continue;
        const meant = new Date(at).toLocaleTimeString("en-GB", { timeZone: name, hourCycle: "h23" });
        compared += 1;
        expect.soft(read, `${path}: ${at} in ${name}`).toBe(meant);
      }
    }
  }
  expect(compared).toBeGreaterThan(20);
  await page.close();
});

test("38 a long name and a long version stand beside or below each other, and the page that is shown is in sight in the bar", async ({
  page,
  url,
}) => {
  const runId = await startRun(
    url,
    "e2e-nightly-refresh-of-the-whole-warehouse",
    [{ stepId: "look", type: "MANUAL", inputs: { instructions: "look" } }],
    "dev",
    "2026.11.22-rc.11-0123456789abcdef",
  );
  for (const width of [1440, 1000, 768, 360, 320]) {
    await page.setViewportSize({ width, height: 780 });
    await page.goto(`${url}/runs?plan=e2e-nightly-refresh-of-the-whole-warehouse`);
    const row = page.locator(`tr[data-run="${runId}"]`);
    const boxes = await row
      .locator("a")
      .evaluate((link) =>
        [...link.querySelectorAll("span > span, :scope > span:not(:has(span)), code")].map(
          (part) => part.getBoundingClientRect().toJSON() as DOMRect,
        ),
      );
    expect(boxes.length).toBeGreaterThan(3);
    for (const [i, a] of boxes.entries()) {
      for (const b of boxes.slice(i + 1))
        expect(a.right <= b.left + 1 || a.bottom <= b.top + 1, `${width} px: ${JSON.stringify([a, b])}`).toBe(true);
    }
  }
  await page.setViewportSize(PHONE);
  // The person who asked for the run may not complete its steps.
  await signIn(page.context(), "dev-admin");
  await page.goto(`${url}/health`);
  await expect(page.getByTestId("inbox-count")).not.toBeEmpty();
  const nav = page.getByRole("navigation", { name: "Pages" });
  await expect
    .poll(() =>
      nav.evaluate((bar) =>
        Math.round(
          (bar.querySelector("[aria-current]")?.getBoundingClientRect().right ?? 9_999) -
            bar.getBoundingClientRect().right,
        ),
      ),
    )
    .toBeLessThanOrEqual(0);
});
