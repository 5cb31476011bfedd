// The past of a run: every moment of its log, shared by an address, and what changed between two.
import { readFileSync } from "node:fs";
import type { Page } from "@playwright/test";
import { cancelRun, expect, signIn, sleeps, startRun, status, sync, test } from "./page";

function tableOf(page: Page): Promise<string | null> {
  return page.locator("main").getByRole("table").textContent();
}

test("39 any moment is a link: view, step, zone and position are the same in a second browser", async ({
  page,
  url,
  browser,
}) => {
  const runId = await startRun(url, "time-link", sleeps(200, 4));
  await page.goto(`${url}/runs/${runId}`);
  await expect(status(page)).toHaveText("Completed");
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.goto(`${url}/runs/${runId}?view=steps&show=PENDING,RUNNING&step=sleep_3&tab=timing&tz=local&at=6`);
  await expect(page.getByTestId("past")).toContainText(/Viewing seq 6, \d\d:\d\d:\d\d \S+, UTC/);
  await expect(status(page)).toHaveText("Running");
  await page.keyboard.press("y");
  const clipboard = (): Promise<string> => page.evaluate(() => navigator.clipboard.readText());
  await expect.poll(clipboard).toContain(runId);
  const copied = await clipboard();
  const elsewhere = await browser.newContext();
  await signIn(elsewhere);
  const other = await elsewhere.newPage();
  await other.goto(copied);
  for (const shown of [page, other]) {
    await expect(shown.getByTestId("past")).toContainText(/Viewing seq 6, \d\d:\d\d:\d\d \S+, UTC/);
    await expect(status(shown)).toHaveText("Running");
    await expect(shown.getByTestId("step-panel")).toContainText("sleep_3");
    await expect(shown.getByTestId("step-panel")).toContainText("Pending");
    await expect(shown.getByRole("button", { name: /^Pending/ }).first()).toHaveAttribute("aria-pressed", "true");
    await expect(shown.getByLabel("Time zone")).toHaveValue("local");
  }
  await expect.poll(async () => (await tableOf(other)) === (await tableOf(page))).toBe(true);
  await other.context().close();
});

test("39 the past is walked by keys, dragged and played; actions are off in it; L comes back to now", async ({
  page,
  url,
}) => {
  const runId = await startRun(url, "time-walk", sleeps(300, 400));
  await page.goto(`${url}/runs/${runId}`);
  await expect(page.getByText(/([3-9]|\d\d) succeeded/)).toBeVisible();
  await page.keyboard.press("[");
  const past = page.getByTestId("past");
  await expect(past).toBeVisible();
  const seqOf = async (): Promise<number> => Number(new URL(page.url()).searchParams.get("at"));
  const before = await seqOf();
  await page.keyboard.press("[");
  await expect.poll(seqOf).toBe(before - 1);
  await page.keyboard.press("]");
  await expect.poll(seqOf).toBe(before);
  await expect(sync(page)).toHaveAttribute("data-state", "PAST");
  await expect(page.getByRole("button", { name: "Pause…" })).toHaveAccessibleDescription(/earlier moment/);
  const header = page.locator("main header").first();
  await expect(header).toContainText(new RegExp(`seq ${before}(\\D|$)`));
  const stood = await header.textContent();
  await page.waitForTimeout(1_200);
  expect(await header.textContent()).toBe(stood);

  const slider = page.getByLabel("Position in the log");
  await slider.focus();
  await page.keyboard.press("Home");
  await expect.poll(seqOf).toBe(1);
  await page.keyboard.press("ArrowRight");
  await expect.poll(seqOf).toBe(2);
  // As fast as it went, the log is never played to its end while the run goes on.
  await page.getByRole("button", { name: "Play the log" }).click();
  await expect.poll(seqOf).toBeGreaterThan(4);
  await page.getByRole("button", { name: "Stop playing" }).click();
  await expect(page.getByRole("button", { name: "Play the log" })).toBeVisible();
  // Much faster it may end by itself.
  await page.getByLabel("Speed").selectOption("50");
  await page.getByRole("button", { name: "Play the log" }).click();
  await expect.poll(seqOf).toBeGreaterThan(before);
  await page.keyboard.press("L");
  await expect(past).toHaveCount(0);
  await expect(sync(page)).toHaveAttribute("data-state", "LIVE");
  await cancelRun(url, runId);
});

test("39 two moments are compared, by address too; a moment that is not there leads back", async ({ page, url }) => {
  const runId = await startRun(url, "time-diff", sleeps(150, 3));
  await page.goto(`${url}/runs/${runId}`);
  await expect(status(page)).toHaveText("Completed");
  await page.goto(`${url}/runs/${runId}?at=5`);
  await page.getByRole("button", { name: "Diff with now" }).click();
  const diff = page.getByTestId("diff");
  await expect(diff).toContainText("Running");
  await expect(diff).toContainText("The run completed.");
  await expect(diff.getByRole("link", { name: "sleep_3" })).toBeVisible();
  const address = page.url();
  await page.goto(`${url}/runs`);
  await page.goto(address);
  await expect(diff).toContainText("The run completed.");
  // What could not be asked is not said to be missing.
  await page.route("**/graphql", (route) =>
    /query RunAt\b/.test(route.request().postData() ?? "") ? route.abort("connectionfailed") : route.fallback(),
  );
  await page.goto(`${url}/runs/${runId}?at=5`);
  await expect(page.getByText("This could not be loaded.")).toBeVisible();
  await expect(page.getByText("has no seq")).toHaveCount(0);
  await page.unroute("**/graphql");
  await page.getByRole("button", { name: "Retry" }).click();
  await expect(page.getByTestId("past")).toBeVisible();
  await page.goto(`${url}/runs/${runId}?at=4000`);
  await expect(page.getByText("The run has no seq 4000.")).toBeVisible();
  await page.getByRole("button", { name: "Live" }).click();
  await expect(status(page)).toHaveText("Completed");
});

test("39 the log, its types and one event of it are an address, and it is exported whole", async ({ page, url }) => {
  const runId = await startRun(url, "time-events", sleeps(100, 2));
  await page.goto(`${url}/runs/${runId}?view=events`);
  await expect(status(page)).toHaveText("Completed");
  await page
    .getByRole("button", { name: /^Step completed/ })
    .first()
    .click();
  await expect(page).toHaveURL(/types=StepCompleted/);
  await expect(page.locator("[data-event]")).toHaveCount(2);
  await page.locator("[data-event]").first().click();
  await expect(page).toHaveURL(/seq=\d+/);
  await page.reload();
  await expect(page.locator("[data-event]")).toHaveCount(2);
  await expect(page.locator('[data-event][aria-expanded="true"]')).toHaveCount(1);
  await expect(page.getByText(/"sleptMs"/)).toBeVisible();
  const download = page.waitForEvent("download");
  await page.getByRole("button", { name: "Export JSON Lines" }).click();
  const path = await (await download).path();
  const lines = readFileSync(path, "utf8")
    .trim()
    .split("\n")
    .map((line) => (JSON.parse(line) as { runSeq: number }).runSeq);
  expect(lines).toEqual(lines.toSorted((a, b) => a - b));
  expect(lines.length).toBeGreaterThan(6);
});
