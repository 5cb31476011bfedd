// Whether the run's page tells the truth, and says so when it cannot. Frames are lost and changed between the page and
// the
// real dvt; what the server says when its own parts fail is proven by its own tests.
import type { Page } from "@playwright/test";
import { ask } from "./api";
import { held, stand, takes } from "./held";
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

test("1 a bus that is down is named within 1 s of the frame that says so, and the page stays live on the store", async ({
  page,
  url,
}) => {
  const runId = await startRun(url, "truth-bus", sleeps(700, 400));
  const wire = await openWire(page);
  await page.clock.install();
  await page.goto(`${url}/runs/${runId}`);
  await expect(sync(page)).toHaveAttribute("data-state", "LIVE");
  await stand(page);
  let said = false;
  wire.meddle((frame) => {
    if (!updateOf(frame)) return frame;
    said = true;
    return withUpdate(frame, { reason: "BUS_DEGRADED" });
  });
  await expect.poll(() => said).toBe(true);
  await page.clock.runFor(1_000);
  await expect(sync(page)).toContainText("polling the store");
  await page.clock.resume();
  wire.meddle((frame) => (updateOf(frame) ? withUpdate(frame, { sync: "STALE", reason: "STORE_DOWN" }) : frame));
  await expect(sync(page)).toContainText("Stale");
  await expect(sync(page)).toContainText("STORE_DOWN");
  await expect(page.locator("main p").getByText("The store does not answer.")).toBeVisible();
  await expect(page.getByTestId("took")).toHaveText(/^≥ /);
  wire.meddle((frame) => frame);
  await expect(sync(page)).toHaveAttribute("data-state", "LIVE");
  await cancelRun(url, runId);
});

test("2 a cut socket is Offline within 1 s; back, it is Live within 5 s and goes on from the last seq", async ({
  page,
  url,
}) => {
  const runId = await startRun(url, "truth-cut", LONG);
  const wire = await openWire(page);
  await page.clock.install();
  await page.goto(`${url}/runs/${runId}`);
  await expect(page.getByRole("button", { name: /^sleep_1, .*running/ }).first()).toBeVisible();
  await expect(sync(page)).toHaveAttribute("data-state", "LIVE");
  const { run } = await ask<{ run: { runSeq: number } }>(url, "dev-engineer", `{ run(runId: "${runId}") { runSeq } }`);
  const seq = run.runSeq;
  await expect(sync(page)).toContainText(`seq ${seq}`);
  await stand(page);
  await wire.cut();
  await page.clock.runFor(1_000);
  await expect(sync(page)).toHaveAttribute("data-state", "OFFLINE");
  await expect(page.getByRole("button", { name: "Pause…" })).toHaveAccessibleDescription(/no connection/);
  await expect(page.locator("main").getByText(/Next try in|Trying now/)).toBeVisible();
  // It is said once, and nothing of the bar is lost.
  await page.setViewportSize({ width: 1600, height: 900 });
  const said = page.getByText(/\bOffline\b/).filter({ visible: true });
  expect(await said.evaluateAll((all) => all.filter((one) => one.getBoundingClientRect().width > 1).length)).toBe(1);
  await expect(page.getByRole("banner").getByRole("combobox", { name: "Time zone" })).toBeVisible();
  await expect(page.getByRole("banner").getByRole("button", { name: "Keys" })).toBeVisible();
  wire.mend();
  // It may be back before the button is pressed, which is gone then.
  await page
    .locator("main")
    .getByRole("button", { name: "Retry now" })
    .click({ timeout: 2_000 })
    .catch(() => {});
  expect(await takes(page, async () => (await sync(page).getAttribute("data-state")) === "LIVE")).toBeLessThanOrEqual(
    5_000,
  );
  const again = wire.subscriptions.filter(({ name }) => name === "RunUpdates").at(-1);
  expect(again?.variables["after"]).toBe(seq);
  expect(again?.variables["storeEpoch"]).toEqual(expect.any(String));
});

test("3 what a query says while the page opens shows no older run than the stream, and no other", async ({
  page,
  url,
}) => {
  const runId = await startRun(url, "truth-opening", LONG);
  const wire = await openWire(page);
  // The answer with the steps is of a position before the header's; the stream has to bring them.
  await page.route("**/graphql", async (route) => {
    if (!/query RunWhole\b/.test(route.request().postData() ?? "")) return route.fallback();
    const response = await route.fetch();
    const { data } = (await response.json()) as { data: { run: Record<string, unknown> } };
    return route.fulfill({
      response,
      json: { data: { run: { ...data.run, runSeq: 0, statusRaw: "OLDER", status: "UNKNOWN" } } },
    });
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

test("4 a restored history replaces the old one, says so, and late frames of the old one change nothing", async ({
  page,
  url,
}) => {
  const runId = await startRun(url, "truth-epoch", sleeps(400, 400));
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
    return [
      withUpdate(whole, {
        storeEpoch: "restored",
        reset: true,
        opsRev: update["opsRev"],
        asOf: update["asOf"],
        headSeq: first?.["runSeq"],
      }),
      frame,
    ];
  });
  const banner = page.getByText(/History was restored to seq \d+/);
  await expect(banner).toBeVisible();
  const shown = Number(/seq (\d+)/.exec((await banner.textContent()) ?? "")?.[1]);
  await expect.poll(() => late).toBeGreaterThan(2);
  await expect(sync(page)).toContainText(`seq ${shown}`);
  await cancelRun(url, runId);
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
    const { step, release } = held("load");
    const runId = await startRun(url, "truth-tail", [step]);
    const wire = await openWire(page);
    let lost = false;
    wire.meddle((frame) => {
      if (lost || !JSON.stringify(updateOf(frame) ?? "").includes('"COMPLETED"')) return frame;
      lost = true;
      if (!socket) void wire.cut().then(wire.mend);
      return null;
    });
    await page.clock.install();
    await page.goto(`${url}/runs/${runId}`);
    await expect(status(page)).toHaveText("Running");
    await expect(sync(page)).toHaveAttribute("data-state", "LIVE");
    await stand(page);
    release();
    await expect.poll(() => lost).toBe(true);
    expect(await takes(page, async () => (await status(page).textContent()) === "Completed")).toBeLessThanOrEqual(
      5_000,
    );
  });
}

test('8 "as of" is the moment of the frame, in the zone that it names', async ({ page, url }) => {
  const runId = await startRun(url, "truth-asof", sleeps(500, 300));
  const wire = await openWire(page);
  let asOf = "";
  let stands = false;
  wire.meddle((frame) => {
    const said = updateOf(frame)?.["asOf"];
    if (typeof said !== "string") return frame;
    if (stands) return withUpdate(frame, { asOf });
    asOf = said;
    return frame;
  });
  await page.goto(`${url}/runs/${runId}?tz=utc`);
  await expect(sync(page)).toHaveAttribute("data-state", "LIVE");
  for (let i = 0; i < 3; i++) {
    const before = asOf;
    await expect.poll(() => asOf).not.toBe(before);
    // The moment stands until the page has got to it, however late.
    stands = true;
    await expect
      .poll(async () => Math.abs(Date.parse(asOf) - Number(await sync(page).getAttribute("data-asof"))))
      .toBeLessThan(1_000);
    stands = false;
  }
  await expect(sync(page)).toContainText("as of now");
  await expect(sync(page)).toHaveAttribute("title", /^as of \d\d:\d\d:\d\d UTC$/);
  await cancelRun(url, runId);
});

test("9 while a pause drains, n falls to 0, nothing new may be started, and then it is quiescent", async ({
  page,
  url,
}) => {
  const wide = ["one", "two", "three"].map((name) => held(name));
  const runId = await startRun(url, "truth-drain", [
    ...wide.map(({ step }) => step),
    { stepId: "after", type: "NOOP", dependsOn: ["one", "two", "three"], inputs: {} },
  ]);
  await page.goto(`${url}/runs/${runId}`);
  // The header repeats the short id before the status, such as "d97f6633 Running".
  await expect(page.getByText("3 running", { exact: true })).toBeVisible();
  await page.keyboard.press("P");
  const dialog = page.getByRole("dialog");
  await expect(dialog.getByTestId("preview")).toHaveAttribute("data-outcome", "APPLY");
  await dialog.getByLabel(/Reason/).fill("warehouse maintenance");
  await dialog.getByRole("button", { name: "Pause" }).click();
  const resume = page.getByRole("button", { name: "Resume…" });
  for (const [ended, { release }] of wide.entries()) {
    await expect(status(page)).toHaveText(`Paused · draining ${3 - ended}`);
    await expect(resume).toHaveAccessibleDescription(/running step/);
    release();
  }
  await expect(status(page)).toHaveText("Paused");
  await expect(
    page
      .getByRole("banner")
      .or(page.locator("main header"))
      .getByText(/nothing is running since seq \d+/)
      .first(),
  ).toBeVisible();
  await expect(resume).not.toHaveAttribute("aria-disabled", "true");
});

test("10 attempt 2 is Retry #1, a status from a later version keeps its word, and a hole in the log is no error", async ({
  page,
  url,
}) => {
  const runId = await startRun(url, "truth-words", [
    {
      stepId: "load",
      type: "COMMAND",
      inputs: { argv: ["ls", "/no/such/file"] },
      retry: { maxAttempts: 1, initialBackoffMs: 100, backoffMultiplier: 1, maxBackoffMs: 100 },
    },
  ]);
  const wire = await openWire(page);
  await page.goto(`${url}/runs/${runId}`);
  await expect(status(page)).toHaveText("Failed, waiting");
  await page.keyboard.press("r");
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name: "Retry step" }).click();
  await expect(page.getByTestId("root-cause")).toContainText("Retry #1");

  wire.streamOnly();
  wire.meddle((frame) => {
    const update = updateOf(frame);
    const snapshot = update?.["snapshot"];
    if (snapshot) return withUpdate(frame, { snapshot: { ...snapshot, status: "UNKNOWN", statusRaw: "HIBERNATING" } });
    const events = frame.payload?.data?.["runEvents"];
    if (
      frame.type !== "next" ||
      typeof events !== "object" ||
      events === null ||
      !("events" in events) ||
      !Array.isArray(events.events)
    )
      return frame;
    const holed = { ...events, events: events.events.filter((_, i) => i !== 3) };
    return { ...frame, payload: { data: { runEvents: holed } } };
  });
  await page.goto(`${url}/runs/${runId}?view=events`);
  await expect(status(page)).toHaveText('Unknown "HIBERNATING"');
  await expect(page.getByText(/^seq \d+ unused$/)).toBeVisible();
  await expect(page.locator("main").getByRole("alert")).toHaveCount(0);
});

test("without dvt each view opens, the banner counts the seconds, and the top bar keeps its height", async ({
  page,
  url,
}) => {
  const runId = await startRun(url, "truth-views", LONG);
  const wire = await openWire(page);
  await page.goto(`${url}/runs/${runId}`);
  await expect(sync(page)).toHaveAttribute("data-state", "LIVE");
  // The code of what is opened later is fetched soon after the page.
  const fetched = (part: string): Promise<boolean> =>
    page.evaluate(
      (name) =>
        performance
          .getEntriesByType("resource")
          .some((entry) => entry.name.includes(`/assets/${name}-`) && entry.name.endsWith(".js")),
      part,
    );
  for (const part of ["Events", "RunReceipts", "RunArtifacts", "Details", "Palette", "Help", "StepInputs"])
    await expect.poll(() => fetched(part), { message: part }).toBe(true);
  const bar = page.getByRole("banner");
  const height = (await bar.boundingBox())?.height;
  await page.route("**/assets/**", (route) => route.abort("connectionfailed"));
  await wire.cut();
  await expect(sync(page)).toHaveAttribute("data-state", "OFFLINE");
  expect((await bar.boundingBox())?.height).toBe(height);
  // The counts of a busy day take room too.
  const pages = bar.getByRole("navigation").locator("a");
  await pages.evaluateAll((links) => links.forEach((link) => link.append(" 999+")));
  for (const width of [1280, 1920, 1440]) {
    await page.setViewportSize({ width, height: 900 });
    expect((await bar.boundingBox())?.height).toBe(height);
  }
  for (const key of ["4", "5", "6", "7", "2"]) {
    await page.keyboard.press(key);
    const current = page.getByRole("navigation", { name: "Views of the run" }).locator("[aria-current]");
    await expect(current).toHaveText([new RegExp(`^${key}`)]);
    await expect(status(page)).toHaveText("Running");
  }
  const seconds = (): Promise<number> =>
    page.evaluate(() => Number(/(\d+) s/.exec(document.querySelector("main p strong")?.textContent ?? "")?.[1]));
  const first = await seconds();
  for (const more of [1, 2, 3]) await expect.poll(seconds).toBeGreaterThanOrEqual(first + more);
  // On a page without a banner the bar says it, in the same row.
  await expect(bar.getByText("Offline")).toBeHidden();
  await page.evaluate(() => document.querySelector("[data-says-offline]")?.removeAttribute("data-says-offline"));
  await expect(bar.getByText("Offline")).toBeVisible();
  for (const width of [1280, 1920, 1440]) {
    await page.setViewportSize({ width, height: 900 });
    expect((await bar.boundingBox())?.height).toBe(height);
  }
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
  await expect(page.locator('[data-event="RunCompleted"]')).toBeVisible();
});
