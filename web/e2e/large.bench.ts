import type { CDPSession, Locator, Page } from "@playwright/test";
import { report } from "./figure";
import { busyOf, feed, framesOf, layered, quantile, tenASecond } from "./large";
import { cancelRun, expect, sleeps, startRun, status, test } from "./page";

const GATE_MS = 600_000;
/** Five repetitions of a figure make 100 s of it. */
const LIVE_S = 20;
const LISTED = 60;
const PROFILE = { latency: 40, downloadThroughput: 1.25e6, uploadThroughput: 1.25e6, offline: false };
const started: string[] = [];

async function runOf(url: string, steps: number): Promise<string> {
  const runId = await startRun(url, `bench-${steps}`, layered(steps, Math.max(5, steps / 20), 1_000, GATE_MS));
  started.push(runId);
  return `${url}/runs/${runId}`;
}
test.afterEach(async ({ url }) => {
  for (const runId of started.splice(0)) await cancelRun(url, runId);
});

async function session(page: Page): Promise<CDPSession> {
  return page.context().newCDPSession(page);
}

async function slowed(page: Page): Promise<void> {
  const cdp = await session(page);
  await cdp.send("Emulation.setCPUThrottlingRate", { rate: 4 });
  await cdp.send("Network.enable");
  await cdp.send("Network.emulateNetworkConditions", PROFILE);
}

/** When the page set a mark, in milliseconds since its navigation. */
async function markOf(page: Page, name: string): Promise<number> {
  const at = (): Promise<number> =>
    page.evaluate((name) => performance.getEntriesByName(name)[0]?.startTime ?? 0, name);
  await expect.poll(at, { timeout: 60_000 }).toBeGreaterThan(0);
  return at();
}

async function idleFrames(page: Page): Promise<readonly number[]> {
  return (await framesOf(page, () => page.waitForTimeout(2_000))).frames;
}

test("ui-header", async ({ page, url }) => {
  await slowed(page);
  const shown = async (address: string): Promise<number> => {
    const began = Date.now();
    await page.goto(address, { waitUntil: "commit" });
    await expect(status(page)).toHaveText("Running");
    return Date.now() - began;
  };
  const [few, many] = [await runOf(url, 5), await runOf(url, 5_000)];
  await shown(few);
  report("ui-header", await shown(many), await shown(few));
});

test("ui-mosaic", async ({ page, url }) => {
  await slowed(page);
  const [few, many] = [await runOf(url, 5), await runOf(url, 5_000)];
  await page.goto(few);
  const floor = await markOf(page, "dvt:graph");
  await page.goto(many);
  report("ui-mosaic", await markOf(page, "dvt:mosaic"), floor);
});

/** More runs than a page of the list shows. */
async function listed(url: string): Promise<void> {
  for (let i = 0; i < LISTED; i++) started.push(await startRun(url, `bench-list-${i % 7}`, sleeps(GATE_MS, 1)));
}

async function openList(page: Page, url: string): Promise<void> {
  await page.goto(`${url}/runs`);
  await expect(page.locator("tr[data-run]")).toHaveCount(50);
  await page.waitForTimeout(500);
}

test("ui-runs-lcp", async ({ page, url }) => {
  await listed(url);
  await slowed(page);
  await openList(page, url);
  const [largest, first] = await page.evaluate(
    () =>
      new Promise<[number, number]>((resolve) => {
        new PerformanceObserver((list) =>
          resolve([
            list.getEntries().at(-1)?.startTime ?? 0,
            performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0,
          ]),
        ).observe({
          type: "largest-contentful-paint",
          buffered: true,
        });
      }),
  );
  expect(largest).toBeGreaterThan(0);
  report("ui-runs-lcp", largest, first);
});

test("ui-runs-inp", async ({ page, url }) => {
  await listed(url);
  await slowed(page);
  await openList(page, url);
  // The longest from an input to the picture that answers it, of all that a person did.
  const longest = async (does: () => Promise<void>): Promise<number> => {
    const seen = await page.evaluateHandle(() => {
      const seen = { longest: 0 };
      new PerformanceObserver((list) => {
        for (const { duration } of list.getEntries()) seen.longest = Math.max(seen.longest, duration);
      }).observe({ type: "event", durationThreshold: 16 } as PerformanceObserverInit);
      return seen;
    });
    await does();
    await page.waitForTimeout(500);
    return seen.evaluate((seen) => seen.longest);
  };
  const floor = await longest(async () => {
    for (let i = 0; i < 5; i++) await page.keyboard.press("F8", { delay: 50 });
  });
  // Finding and looking at elements is work of the page too: where to click is known before it is asked what took how
  // long.
  const click = async (target: Locator): Promise<number> => {
    const box = await target.boundingBox();
    if (!box) throw new Error(`${target} is not to be seen`);
    return longest(() => page.mouse.click(box.x + box.width / 2, box.y + box.height / 2, { delay: 50 }));
  };
  const keys = await longest(async () => {
    for (const key of ["j", "j", "x", "j", "j", "Shift+X", "Escape", "/"])
      await page.keyboard.press(key, { delay: 50 });
    await page.keyboard.type("plan:bench-list-3", { delay: 60 });
    await page.keyboard.press("Enter");
    await page.waitForTimeout(1_000);
  });
  await expect(page.locator("tr[data-run]")).not.toHaveCount(50);
  const running = await click(page.getByRole("button", { name: "Running", exact: true }));
  await expect(page).toHaveURL(/status=/);
  const all = await click(page.getByRole("link", { name: "All", exact: true }));
  await expect(page.locator("tr[data-run]")).toHaveCount(50);
  const menu = await click(
    page
      .locator("tr[data-run]")
      .nth(3)
      .getByRole("button", { name: /^More for/ }),
  );
  await expect(page.getByRole("menuitem", { name: "Copy link" })).toBeVisible();
  const closed = await longest(() => page.keyboard.press("Escape", { delay: 50 }));
  const cost = Math.max(keys, running, all, menu, closed);
  report("ui-runs-inp", cost, floor);
});

for (const { name, steps, against } of [
  { name: "ui-live-1000", steps: 1_000, against: null },
  { name: "ui-live-5000", steps: 5_000, against: 1_000 },
]) {
  test(name, async ({ page, url }) => {
    test.setTimeout(10 * LIVE_S * 1_000);
    const updates = await feed(page);
    const cdp = await session(page);
    const busy = async (size: number, moving: boolean): Promise<number> => {
      await page.goto(await runOf(url, size));
      await markOf(page, "dvt:mosaic");
      if (moving) await tenASecond(updates, 2);
      return busyOf(cdp, () => (moving ? tenASecond(updates, LIVE_S) : page.waitForTimeout(LIVE_S * 1_000)));
    };
    const floor = await busy(against ?? steps, against !== null);
    report(name, await busy(steps, true), floor);
  });
}

test("ui-live-frames", async ({ page, url }) => {
  test.setTimeout(10 * LIVE_S * 1_000);
  const updates = await feed(page);
  await page.goto(await runOf(url, 1_000));
  await markOf(page, "dvt:mosaic");
  const idle = await idleFrames(page);
  await tenASecond(updates, 2);
  const { frames } = await framesOf(page, () => tenASecond(updates, LIVE_S));
  report("ui-live-frames", quantile(frames, 0.99), quantile(idle, 0.99));
});

test("ui-layout", async ({ page, url }) => {
  const took = async (steps: number): Promise<number> => {
    await page.goto(`${await runOf(url, steps)}?whole=yes`);
    return (await markOf(page, "dvt:layout-made")) - (await markOf(page, "dvt:layout-asked"));
  };
  const floor = await took(1_100);
  report("ui-layout", await took(5_000), floor);
});

test("ui-graph-mount", async ({ page, url }) => {
  const address = await runOf(url, 5_000);
  const mounted = async (open: () => Promise<unknown>): Promise<number> => {
    await markOf(page, "dvt:mosaic");
    await page.evaluate(() =>
      addEventListener("click", ({ timeStamp }) => Object.assign(globalThis, { clicked: timeStamp }), true),
    );
    await open();
    return (
      (await markOf(page, "dvt:graph")) -
      (await page.evaluate(() => (globalThis as unknown as { clicked: number }).clicked))
    );
  };
  // The layout is cached, so only the drawing is measured.
  await page.goto(`${address}?whole=yes`);
  await markOf(page, "dvt:graph");
  await page.goto(address);
  const floor = await mounted(() => page.locator("[data-cells] canvas").click({ position: { x: 4, y: 4 } }));
  await page.goto(address);
  report("ui-graph-mount", await mounted(() => page.getByRole("button", { name: "All as a graph" }).click()), floor);
});

test("ui-graph-pan", async ({ page, url }) => {
  await page.goto(`${await runOf(url, 5_000)}?whole=yes`);
  await markOf(page, "dvt:graph");
  for (let i = 0; i < 12; i++) await page.getByRole("button", { name: "Zoom in" }).click();
  const box = await page.getByRole("group", { name: /as a graph/ }).boundingBox();
  const [x, y] = [(box?.x ?? 0) + 700, (box?.y ?? 0) + 250];
  const idle = await idleFrames(page);
  const { frames } = await framesOf(page, async () => {
    await page.mouse.move(x, y);
    await page.mouse.down();
    await page.mouse.move(x - 650, y - 200, { steps: 120 });
    await page.mouse.move(x, y, { steps: 120 });
    await page.mouse.up();
  });
  report("ui-graph-pan", quantile(frames, 0.95), quantile(idle, 0.95));
});

test("ui-timeline-scroll", async ({ page, url }) => {
  await page.goto(`${await runOf(url, 5_000)}?view=timeline`);
  const table = page.getByRole("table", { name: /Timeline of 5,000 steps/ });
  await expect(table).toBeVisible();
  const idle = await idleFrames(page);
  await table.hover();
  const { frames } = await framesOf(page, async () => {
    for (let i = 0; i < 200; i++) {
      await page.mouse.wheel(0, 120);
      await page.waitForTimeout(16);
    }
  });
  report("ui-timeline-scroll", quantile(frames, 0.95), quantile(idle, 0.95));
});
