// Whether the run's page tells the truth, and says so when it cannot. Frames are lost and changed between the page and the
// real dvt; what the server says when its own parts fail is proven by its own tests.
import type { Page } from "@playwright/test";
import { cancelRun, expect, sleeps, startRun, status, sync, test } from "./page";
import { type Frame, openWire, updateOf, withUpdate } from "./wire";

const LONG = sleeps(60_000, 1);

/** Every state that the chip shows from now on, in order. */
async function watchChip(page: Page): Promise<() => Promise<string[]>> {
  await page.evaluate(() => {
    const seen: string[] = [];
    Object.assign(window, { seen });
    const chip = document.querySelector('[data-testid="sync"]');
    if (!chip) throw new Error("no chip");
    const look = (): void => {
      const state = chip.getAttribute("data-state") ?? "";
      if (seen.at(-1) !== state) seen.push(state);
    };
    new MutationObserver(look).observe(chip, { attributes: true, childList: true, subtree: true, characterData: true });
  });
  return () => page.evaluate(() => (window as unknown as { seen: string[] }).seen);
}

test("1 a bus that is down is named within 1 s of the frame that says so, and the page stays live on the store", async ({ page, url }) => {
  const runId = await startRun(url, "truth-bus", sleeps(700, 40));
  const wire = await openWire(page);
  await page.goto(`${url}/runs/${runId}`);
  await expect(sync(page)).toHaveAttribute("data-state", "LIVE");
  let said = 0;
  wire.meddle((frame) => {
    if (!updateOf(frame)) return frame;
    said ||= Date.now();
    return withUpdate(frame, { reason: "BUS_DEGRADED" });
  });
  await expect(sync(page)).toContainText("polling the store");
  expect(Date.now() - said).toBeLessThan(1_000);
  wire.meddle((frame) => (updateOf(frame) ? withUpdate(frame, { sync: "STALE", reason: "STORE_DOWN" }) : frame));
  await expect(sync(page)).toContainText("Stale");
  await expect(sync(page)).toContainText("STORE_DOWN");
  await expect(page.locator("main p").getByText("The store does not answer.")).toBeVisible();
  await expect(page.getByTestId("took")).toHaveText(/^≥ /);
  wire.meddle((frame) => frame);
  await expect(sync(page)).toHaveAttribute("data-state", "LIVE");
});

test("2 a cut socket is Offline within 1 s; back, it is Live within 5 s and goes on from the last seq", async ({ page, url }) => {
  const runId = await startRun(url, "truth-cut", LONG);
  const wire = await openWire(page);
  await page.goto(`${url}/runs/${runId}`);
  await expect(status(page)).toHaveText("Running");
  await expect(sync(page)).toHaveAttribute("data-state", "LIVE");
  const seq = Number(/seq (\d+)/.exec((await sync(page).textContent()) ?? "")?.[1]);
  const cutAt = Date.now();
  await wire.cut();
  await expect(sync(page)).toHaveAttribute("data-state", "OFFLINE", { timeout: 1_500 });
  expect(Date.now() - cutAt).toBeLessThan(1_500);
  await expect(page.getByRole("button", { name: "Pause…" })).toHaveAccessibleDescription(/no connection/);
  await expect(page.locator("main").getByText(/Next try in|Trying now/)).toBeVisible();
  wire.mend();
  // It may be back before the button is pressed, which is gone then.
  await page.locator("main").getByRole("button", { name: "Retry now" }).click({ timeout: 2_000 }).catch(() => {});
  await expect(sync(page)).toHaveAttribute("data-state", "LIVE", { timeout: 5_000 });
  const again = wire.subscriptions.filter(({ name }) => name === "RunUpdates").at(-1);
  expect(again?.variables["after"]).toBe(seq);
  expect(again?.variables["storeEpoch"]).toEqual(expect.any(String));
});

test("3 what a query says while the page opens shows no older run than the stream, and no other", async ({ page, url }) => {
  const runId = await startRun(url, "truth-opening", LONG);
  const wire = await openWire(page);
  // The answer with the steps is of a position before the header's; the stream has to bring them.
  await page.route("**/graphql", async (route) => {
    if (!/query RunWhole\b/.test(route.request().postData() ?? "")) return route.fallback();
    const response = await route.fetch();
    const { data } = (await response.json()) as { data: { run: Record<string, unknown> } };
    return route.fulfill({ response, json: { data: { run: { ...data.run, runSeq: 0, statusRaw: "OLDER", status: "UNKNOWN" } } } });
  });
  const seen: string[] = [];
  await page.exposeFunction("saw", (word: string) => seen.push(word));
  await page.addInitScript(() => {
    const saw = (globalThis as unknown as { saw: (word: string) => void }).saw;
    new MutationObserver(() => {
      const word = document.querySelector('[data-testid="run-status"]')?.textContent;
      if (word) saw(word);
    }).observe(document, { childList: true, subtree: true, characterData: true });
  });
  await page.goto(`${url}/runs/${runId}`);
  await expect(sync(page)).toHaveAttribute("data-state", "LIVE");
  await expect(page.getByRole("button", { name: /sleep_1/ }).first()).toBeVisible();
  expect(wire.subscriptions.find(({ name }) => name === "RunUpdates")?.variables["after"]).toBeNull();
  expect(seen.filter((word) => word.includes("OLDER"))).toEqual([]);
});

test("4 a restored history replaces the old one, says so, and late frames of the old one change nothing", async ({ page, url }) => {
  const runId = await startRun(url, "truth-epoch", sleeps(400, 100));
  const wire = await openWire(page);
  wire.streamOnly();
  let whole: Frame | null = null;
  let restored = false;
  let late = 0;
  wire.meddle((frame) => {
    const update = updateOf(frame);
    if (!update) return frame;
    if (update["snapshot"]) whole ??= frame;
    if (!restored) return frame;
    late += 1;
    return frame;
  });
  await page.goto(`${url}/runs/${runId}`);
  await expect(page.getByText(/[2-9] succeeded/)).toBeVisible();
  wire.meddle((frame) => {
    const update = updateOf(frame);
    if (!update || whole === null) return frame;
    if (restored) {
      late += 1;
      return frame;
    }
    restored = true;
    const first = updateOf(whole);
    return [withUpdate(whole, { storeEpoch: "restored", reset: true, opsRev: update["opsRev"], asOf: update["asOf"], headSeq: first?.["runSeq"] }), frame];
  });
  const banner = page.getByText(/History was restored to seq \d+/);
  await expect(banner).toBeVisible();
  const shown = Number(/seq (\d+)/.exec((await banner.textContent()) ?? "")?.[1]);
  await expect.poll(() => late).toBeGreaterThan(2);
  await expect(sync(page)).toContainText(`seq ${shown}`);
});

test("5 without a frame for 20 s the page is Offline and its clocks stand, with ≥", async ({ page, url }) => {
  const runId = await startRun(url, "truth-silence", LONG);
  const wire = await openWire(page);
  await page.clock.install();
  await page.goto(`${url}/runs/${runId}`);
  await expect(status(page)).toHaveText("Running");
  wire.meddle((frame) => (frame.type === "next" ? null : frame));
  await page.clock.fastForward(21_000);
  await expect(sync(page)).toHaveAttribute("data-state", "OFFLINE");
  await expect(page.locator("main p").getByText(/There is no connection to dvt/)).toBeVisible();
  const took = page.getByTestId("took");
  await expect(took).toHaveText(/^≥ /);
  const stood = await took.textContent();
  await page.clock.fastForward(5_000);
  await expect(took).toHaveText(stood ?? "");
});

test("6 a tab that was hidden for ten minutes verifies before it calls itself Live", async ({ page, url }) => {
  const runId = await startRun(url, "truth-hidden", LONG);
  await page.clock.install();
  await page.goto(`${url}/runs/${runId}`);
  await expect(sync(page)).toHaveAttribute("data-state", "LIVE");
  const hide = (hidden: boolean): Promise<void> =>
    page.evaluate((now) => {
      Object.defineProperty(document, "hidden", { configurable: true, get: () => now });
      document.dispatchEvent(new Event("visibilitychange"));
    }, hidden);
  await hide(true);
  await page.clock.fastForward(600_000);
  await expect(sync(page)).toHaveAttribute("data-state", "LIVE");
  const seen = await watchChip(page);
  await hide(false);
  await expect.poll(seen).toContain("LIVE");
  expect((await seen())[0]).toBe("VERIFYING");
});

for (const { how, socket } of [
  { how: "lost with its socket", socket: false },
  { how: "lost and the socket lives", socket: true },
]) {
  test(`7 when the last message is ${how}, the end is shown within 5 s`, async ({ page, url }) => {
    const runId = await startRun(url, "truth-tail", sleeps(1_500, 2));
    const wire = await openWire(page);
    let lostAt = 0;
    wire.meddle((frame) => {
      if (lostAt > 0 || !JSON.stringify(updateOf(frame) ?? "").includes('"COMPLETED"')) return frame;
      lostAt = Date.now();
      if (!socket) void wire.cut().then(wire.mend);
      return null;
    });
    await page.goto(`${url}/runs/${runId}`);
    await expect(status(page)).toHaveText("Completed", { timeout: 30_000 });
    expect(lostAt).toBeGreaterThan(0);
    expect(Date.now() - lostAt).toBeLessThan(5_000);
  });
}

test('8 "as of" is the moment of the frame, in the zone that it names', async ({ page, url }) => {
  const runId = await startRun(url, "truth-asof", sleeps(500, 30));
  const wire = await openWire(page);
  let asOf = "";
  wire.meddle((frame) => {
    const said = updateOf(frame)?.["asOf"];
    if (typeof said === "string") asOf = said;
    return frame;
  });
  await page.goto(`${url}/runs/${runId}?tz=utc`);
  await expect(sync(page)).toHaveAttribute("data-state", "LIVE");
  for (let i = 0; i < 3; i++) {
    await page.waitForTimeout(700);
    const shown = Number(await sync(page).getAttribute("data-asof"));
    expect(Math.abs(Date.parse(asOf) - shown)).toBeLessThan(1_000);
  }
  await expect(sync(page)).toContainText(/as of \d\d:\d\d:\d\d UTC/);
});

test("9 while a pause drains, n falls to 0, nothing new may be started, and then it is quiescent", async ({ page, url }) => {
  const wide = [2_000, 4_500, 7_000].map((ms, i) => ({ stepId: `wide_${i}`, type: "SLEEP" as const, inputs: { ms } }));
  const runId = await startRun(url, "truth-drain", [...wide, { stepId: "after", type: "NOOP", dependsOn: wide.map(({ stepId }) => stepId), inputs: {} }]);
  await page.goto(`${url}/runs/${runId}`);
  await expect(page.getByText("3 running")).toBeVisible();
  await page.keyboard.press("P");
  const dialog = page.getByRole("dialog");
  await expect(dialog.getByTestId("preview")).toHaveAttribute("data-outcome", "APPLY");
  await dialog.getByLabel(/Reason/).fill("warehouse maintenance");
  await dialog.getByRole("button", { name: "Send: pause" }).click();
  await expect(status(page)).toContainText("draining");
  const resume = page.getByRole("button", { name: "Resume…" });
  await expect(resume).toHaveAccessibleDescription(/in-flight/);
  const seen = new Set<string>();
  await expect
    .poll(async () => {
      const text = (await status(page).textContent()) ?? "";
      const n = /draining (\d)/.exec(text)?.[1];
      if (n !== undefined) seen.add(n);
      return text;
    }, { intervals: [100] })
    .toBe("Paused");
  expect([...seen].map(Number)).toEqual([...seen].map(Number).toSorted((a, b) => b - a));
  expect(seen.size).toBeGreaterThan(1);
  await expect(page.getByRole("banner").or(page.locator("main header")).getByText(/quiescent at seq \d+/).first()).toBeVisible();
  await expect(resume).not.toHaveAttribute("aria-disabled", "true");
});

test("10 attempt 2 is Retry #1, a status from a later version keeps its word, and a hole in the log is no error", async ({ page, url }) => {
  const runId = await startRun(url, "truth-words", [
    { stepId: "load", type: "COMMAND", inputs: { argv: ["ls", "/no/such/file"] }, retry: { maxAttempts: 1, initialBackoffMs: 100, backoffMultiplier: 1, maxBackoffMs: 100 } },
  ]);
  const wire = await openWire(page);
  await page.goto(`${url}/runs/${runId}`);
  await expect(status(page)).toHaveText("Awaiting operator");
  await page.keyboard.press("r");
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name: "Send: retry step" }).click();
  await expect(page.getByTestId("root-cause")).toContainText("Retry #1");

  wire.streamOnly();
  wire.meddle((frame) => {
    const update = updateOf(frame);
    const snapshot = update?.["snapshot"];
    if (snapshot) return withUpdate(frame, { snapshot: { ...snapshot, status: "UNKNOWN", statusRaw: "HIBERNATING" } });
    const events = frame.payload?.data?.["runEvents"];
    if (frame.type !== "next" || typeof events !== "object" || events === null || !("events" in events) || !Array.isArray(events.events)) return frame;
    const holed = { ...events, events: events.events.filter((_, i) => i !== 3) };
    return { ...frame, payload: { data: { runEvents: holed } } };
  });
  await page.goto(`${url}/runs/${runId}?view=events`);
  await expect(status(page)).toHaveText('Unknown "HIBERNATING"');
  await expect(page.getByText(/^seq \d+ unused$/)).toBeVisible();
  await expect(page.locator("main").getByRole("alert")).toHaveCount(0);
});

test("without dvt each view opens, the banner and the chip count the same seconds, and the top bar keeps its height", async ({ page, url }) => {
  const runId = await startRun(url, "truth-views", LONG);
  const wire = await openWire(page);
  await page.goto(`${url}/runs/${runId}`);
  await expect(sync(page)).toHaveAttribute("data-state", "LIVE");
  // The code of what is opened later is fetched soon after the page.
  await page.waitForTimeout(4_000);
  const bar = page.getByRole("banner");
  const height = (await bar.boundingBox())?.height;
  await page.route("**/assets/**", (route) => route.abort("connectionfailed"));
  await wire.cut();
  await expect(sync(page)).toHaveAttribute("data-state", "OFFLINE");
  expect((await bar.boundingBox())?.height).toBe(height);
  for (const key of ["4", "5", "6", "7", "2"]) {
    await page.keyboard.press(key);
    await expect(page.getByRole("navigation", { name: "Views of the run" }).locator("[aria-current]")).toContainText(key);
    await expect(status(page)).toHaveText("Running");
  }
  await page.waitForTimeout(3_000);
  const seconds = await page.evaluate(() => ["[data-testid=sync]", "main p strong"].map((place) => Number(/(\d+) s/.exec(document.querySelector(place)?.textContent ?? "")?.[1])));
  expect(seconds[0]).toBeGreaterThan(3);
  expect(seconds[1]).toBe(seconds[0]);
  await cancelRun(url, runId);
});

test("a view whose code is not to be had says so, and the page stays", async ({ page, url }) => {
  const runId = await startRun(url, "truth-code", sleeps(50, 1));
  await page.route("**/assets/Events-*", (route) => route.abort("connectionfailed"));
  await page.goto(`${url}/runs/${runId}`);
  await expect(status(page)).toHaveText("Completed");
  await page.keyboard.press("4");
  await expect(page.getByRole("alert").getByText("This could not be loaded.")).toBeVisible();
  await expect(status(page)).toHaveText("Completed");
  await page.unroute("**/assets/Events-*");
  await page.getByRole("button", { name: "Reload the page" }).click();
  await expect(page.getByText("RunCompleted").first()).toBeVisible();
});
