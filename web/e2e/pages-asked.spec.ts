// What is asked for again and again: at a server that is slow, in a tab that is hidden, and after rights were given or
// taken.
import type { Page, Request, Route } from "@playwright/test";
import { become, cancelRun, expect, sleeps, startRun, sync, test } from "./page";
import { grant } from "./policy";

/** Holds the answers to a query back until they are let go, one by one. */
async function hold(page: Page, query: string): Promise<{ held: Route[]; letGo: () => Promise<void> }> {
  const held: Route[] = [];
  await page.route("**/graphql", (route) => {
    if (!new RegExp(`query ${query}\\b`).test(route.request().postData() ?? "")) return route.fallback();
    held.push(route);
    return undefined;
  });
  return { held, letGo: async () => held.shift()?.continue() };
}

async function hide(page: Page, hidden: boolean): Promise<void> {
  await page.evaluate((now) => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => now });
    Object.defineProperty(document, "visibilityState", { configurable: true, get: () => (now ? "hidden" : "visible") });
    document.dispatchEvent(new Event("visibilitychange"));
  }, hidden);
}

test("a list that is answered slower than it is asked for waits for its answer, says that it is stale, and shows it", async ({
  page,
  url,
}) => {
  await page.clock.install();
  await page.goto(`${url}/queue`);
  const asOf = page.getByText(/^as of/);
  await expect(asOf).toBeVisible();
  const before = (await asOf.textContent()) ?? "";
  const shown = await page.evaluate(() => Date.now());
  const { held, letGo } = await hold(page, "Queue");
  await page.clock.runFor(4_000);
  await expect.poll(() => held.length).toBe(1);
  await page.clock.runFor(10_000);
  // The clock of the page also runs by itself, for longer where the machine is busy.
  const { stale, age } = await page.evaluate((shown) => {
    const at = document.querySelector("[data-testid=stale]");
    return { stale: at !== null, age: Date.now() - shown };
  }, shown);
  expect(stale && age < 17_000, `stale after ${age} ms`).toBe(false);
  await page.clock.runFor(10_000);
  expect(held).toHaveLength(1);
  await expect(page.getByTestId("stale")).toHaveText(/Stale for ([2-9]\d|[1-9]\d\d) s/);
  await letGo();
  await expect(page.getByTestId("stale")).toHaveCount(0);
  await expect(asOf).not.toHaveText(before);
  await page.clock.runFor(4_000);
  await expect.poll(() => held.length).toBe(1);
});

test("a list of something else is asked for at once, and the late answer of the former is none", async ({
  page,
  url,
}) => {
  await page.goto(`${url}/audit`);
  await become(page, "dev-admin");
  await expect(page.getByLabel("Who", { exact: true })).toBeVisible();
  const { held } = await hold(page, "Audit");
  await page.getByLabel("Who", { exact: true }).fill("dev-viewer");
  await page.keyboard.press("Enter");
  await expect.poll(() => held.length).toBe(1);
  const given = page.waitForEvent("requestfailed");
  await page.getByLabel("Who", { exact: true }).fill("dev-admin");
  await page.keyboard.press("Enter");
  await expect.poll(() => held.length).toBe(2);
  expect((await given).postData()).toContain("dev-viewer");
});

test("the answer to what was asked first takes no newer one's place", async ({ page, url }) => {
  await page.goto(`${url}/admin/service`);
  const refresh = page.getByRole("button", { name: "Refresh" });
  await expect(page.getByText("Normal", { exact: true })).toBeVisible();
  const { held, letGo } = await hold(page, "Service");
  await refresh.click();
  await expect.poll(() => held.length).toBe(1);
  await refresh.click();
  await expect.poll(() => held.length).toBe(2);
  const old = held.shift();
  await letGo();
  await expect(page.getByText("Normal", { exact: true })).toBeVisible();
  const response = await old?.fetch();
  const text = (await response?.text()) ?? "";
  await old?.fulfill({ body: text.replace('"NORMAL"', '"DRAINED"'), contentType: "application/json" }).catch(() => {});
  await page.waitForTimeout(300);
  await expect(page.getByText("Normal", { exact: true })).toBeVisible();
});

test("the oldest runs first: nothing is asked in a hidden tab, and at once when it is seen again", async ({
  page,
  url,
}) => {
  await page.clock.install();
  let asked = 0;
  await page.route("**/graphql", (route) => {
    if (/query Runs\b/.test(route.request().postData() ?? "")) asked += 1;
    return route.fallback();
  });
  await page.goto(`${url}/runs?sort=oldest`);
  await expect(sync(page)).toContainText("Read every 5 s");
  await page.clock.runFor(6_000);
  await expect.poll(() => asked).toBeGreaterThan(2);
  await hide(page, true);
  await page.clock.runFor(1_000);
  const before = asked;
  await page.clock.runFor(60_000);
  expect(asked).toBe(before);
  await expect(sync(page)).toHaveAttribute("data-state", "VERIFYING");
  const { held, letGo } = await hold(page, "Runs");
  await hide(page, false);
  await expect.poll(() => held.length).toBe(1);
  await expect(sync(page)).toHaveAttribute("data-state", "VERIFYING");
  await letGo();
  await expect(sync(page)).toContainText("Read every 5 s");
});

const isPreview = (request: Request): boolean => /query Preview\b/.test(request.postData() ?? "");

test("what an action would do is asked each half minute, nothing in a hidden tab, and at once when it is seen again", async ({
  page,
  url,
}) => {
  const runId = await startRun(url, "asked-preview", sleeps(600_000, 1));
  let asked = 0;
  let answered = 0;
  page.on("request", (request) => (asked += isPreview(request) ? 1 : 0));
  page.on("requestfinished", (request) => (answered += isPreview(request) ? 1 : 0));
  await page.clock.install();
  await page.goto(`${url}/runs/${runId}`);
  await expect(sync(page)).toHaveAttribute("data-state", "LIVE");
  await page.getByRole("button", { name: "Pause…" }).click();
  const dialog = page.getByRole("dialog", { name: /^Pause/ });
  await expect(dialog).toContainText("If sent now");
  const opened = asked;
  await page.clock.runFor(31_000);
  await expect.poll(() => asked).toBe(opened + 1);
  // An answer that arrived behind the 90 s would count as new, and the page would rightly not ask again.
  await expect.poll(() => answered).toBe(opened + 1);
  await page.clock.runFor(100);
  await hide(page, true);
  await page.clock.runFor(90_000);
  expect(asked).toBe(opened + 1);
  await hide(page, false);
  await expect.poll(() => asked).toBe(opened + 2);
  await expect(dialog).toContainText("If sent now");
  await cancelRun(url, runId);
});

test("timers that a browser holds back in a hidden tab are no sleep of the machine; its return is doubted once", async ({
  page,
  url,
}) => {
  const runId = await startRun(url, "asked-hidden", sleeps(600_000, 1));
  let [begun, unanswered] = [0, 0];
  await page.routeWebSocket(/\/graphql$/, (socket) => {
    const server = socket.connectToServer();
    socket.onMessage((message) => {
      if (String(message).includes("subscription RunUpdates")) begun += 1;
      if (String(message).includes('"type":"ping"')) unanswered += 1;
      server.send(message);
    });
    server.onMessage((message) => {
      socket.send(message);
      if (String(message).includes('"type":"pong"')) unanswered -= 1;
    });
  });
  await page.clock.install();
  await page.goto(`${url}/runs/${runId}`);
  await expect(sync(page)).toHaveAttribute("data-state", "LIVE");
  await hide(page, true);
  const before = begun;
  // As Chrome does after five minutes: timers that were due in a minute fire once.
  for (let minute = 0; minute < 4; minute++) {
    await page.clock.fastForward(60_000);
    // No answer is a minute on its way.
    await page.waitForTimeout(200);
    await expect.poll(() => unanswered).toBe(0);
    await page.waitForTimeout(100);
  }
  expect(begun).toBe(before);
  await hide(page, false);
  await expect.poll(() => begun).toBe(before + 1);
  await expect(sync(page)).toHaveAttribute("data-state", "LIVE");
  // The machine slept with the page in sight.
  await page.clock.fastForward(60_000);
  await expect.poll(() => begun).toBe(before + 2);
  await cancelRun(url, runId);
});

test("a right that is given is there within a minute, and one that was taken is gone when it was refused", async ({
  page,
  url,
}) => {
  await page.clock.install();
  await page.goto(`${url}/admin/service`);
  await become(page, "dev-viewer");
  const freeze = page.getByRole("button", { name: "Freeze" });
  await expect(freeze).toHaveAttribute("aria-disabled", "true");
  let asked = 0;
  page.on("request", (request) => (asked += /query Viewer\b/.test(request.postData() ?? "") ? 1 : 0));
  try {
    await grant(url, "dev-viewer", "ADMIN", true);
    await page.clock.runFor(61_000);
    await expect(freeze).not.toHaveAttribute("aria-disabled", "true");
    expect(asked).toBe(1);
  } finally {
    await grant(url, "dev-viewer", "ADMIN", false);
  }
  await freeze.click();
  const dialog = page.getByRole("alertdialog").or(page.getByRole("dialog"));
  await dialog.getByLabel(/Reason/).fill("to be refused");
  await dialog.getByRole("button", { name: /Freeze/ }).click();
  await expect(dialog).toContainText("FORBIDDEN");
  await dialog.getByRole("button", { name: "Cancel", exact: true }).click();
  await expect(freeze).toHaveAttribute("aria-disabled", "true");
  expect(asked).toBe(2);
});
