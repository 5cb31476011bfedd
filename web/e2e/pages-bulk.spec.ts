import { readFileSync } from "node:fs";
import type { Page } from "@playwright/test";
import { receiptsOf } from "./api";
import { violationsOfBoth } from "./look";
import { cancelRun, expect, sleeps, startRun, sync, test } from "./page";
import { limitProject } from "./policy";

const RUNS = 200;
const FAILING = 3;

function progress(page: Page) {
  return page.getByTestId("bulk-progress");
}

test("32 200 runs with 3 failing: one result for each, the page may be closed, and only the 3 are retried", async ({
  page,
  url,
  context,
}) => {
  const over = await Promise.all(
    Array.from({ length: FAILING }, () => startRun(url, "e2e-bulk", [{ stepId: "nothing", type: "NOOP", inputs: {} }])),
  );
  await page.goto(`${url}/runs?plan=e2e-bulk&status=COMPLETED`);
  await expect(page.locator("tr[data-run]"))
    .toHaveCount(FAILING, { timeout: 30_000 })
    .catch(async () => {
      await page.reload();
      await expect(page.locator("tr[data-run]")).toHaveCount(FAILING);
    });
  for (let at = 0; at < RUNS - FAILING; at += 16) {
    await Promise.all(
      Array.from({ length: Math.min(16, RUNS - FAILING - at) }, () => startRun(url, "e2e-bulk", sleeps(600_000, 1))),
    );
  }
  await page.goto(`${url}/runs?plan=e2e-bulk`);
  await expect(sync(page)).toContainText("Live");
  await expect(page.locator("tr[data-run]")).toHaveCount(50);
  await page.getByRole("checkbox", { name: "Select all runs shown" }).check();
  const bar = page.getByRole("region", { name: "Selected runs" });
  await expect(bar).toContainText("50 runs selected");
  await bar.getByRole("button", { name: "Act on all that match" }).click();
  await bar.getByRole("button", { name: "Cancel run…" }).click();
  const dialog = page.getByRole("alertdialog", { name: `Cancel ${RUNS} runs` });
  await expect(dialog).toContainText(`This concerns ${RUNS} runs`);
  expect.soft(await violationsOfBoth(page)).toEqual([]);
  await dialog.getByLabel(/Reason/).fill("the source was broken");
  const send = dialog.getByRole("button", { name: `Cancel ${RUNS} runs` });
  await expect(send).toBeDisabled();
  await dialog.getByLabel(/^Type \d+ to confirm/).fill(String(RUNS));
  await page.keyboard.press("Enter");
  await expect(dialog).toBeVisible();
  await send.click();
  await expect(page).toHaveURL(/\/bulk\/./);
  const address = page.url();
  await expect(progress(page)).toContainText(`of ${RUNS}`);
  await page.close();

  const again = await context.newPage();
  await again.goto(address);
  await expect(progress(again)).toContainText(`${RUNS} of ${RUNS} sent`, { timeout: 300_000 });
  await again.getByRole("link", { name: `Without effect ${FAILING}` }).click();
  await expect(again).toHaveURL(/result=failed/);
  await expect(again.locator("[data-result=REJECTED]")).toHaveCount(FAILING);
  await expect(again.getByRole("table")).toContainText("RUN_TERMINAL");
  for (const runId of over) await expect(again.getByRole("table").getByTitle(runId, { exact: true })).toBeVisible();
  const file = again.waitForEvent("download");
  await again.getByRole("button", { name: "Export CSV" }).click();
  const lines = readFileSync(await (await file).path(), "utf8")
    .trim()
    .split("\r\n");
  expect(lines).toHaveLength(RUNS + 1);
  expect(lines.filter((line) => line.includes("REJECTED"))).toHaveLength(FAILING);

  await again.getByRole("button", { name: `Send again to the ${FAILING} without effect…` }).click();
  const retry = again.getByRole("alertdialog", { name: `Cancel ${FAILING} runs` });
  await expect(retry).toContainText("Would be refused now:");
  await expect(retry.getByRole("listitem")).toHaveText(`${FAILING} runs: The run has ended. RUN_TERMINAL`);
  await retry.getByLabel(/Reason/).fill("once more");
  await retry.getByLabel(/^Type \d+ to confirm/).fill(String(FAILING));
  await retry.getByRole("button", { name: `Cancel ${FAILING} runs` }).click();
  await expect(again.getByRole("heading", { name: `Cancel ${FAILING} runs` })).toBeVisible();
  await expect.poll(() => again.url()).not.toContain(address);
  await expect(progress(again)).toContainText(`${FAILING} of ${FAILING} sent`);
  await expect(again.getByRole("table").getByRole("row")).toHaveCount(FAILING + 1);
  await again.getByRole("link", { name: "Bulk actions" }).click();
  await expect(again.getByRole("link", { name: `Cancel ${RUNS} runs` })).toBeVisible();
});

test("32 33 a bulk that waits is stopped: its rows say that nothing was sent, and its dialogs read well", async ({
  page,
  url,
}) => {
  const runs = await Promise.all(Array.from({ length: 2 }, () => startRun(url, "e2e-bulk-stop", sleeps(600_000, 1))));
  await limitProject(url, { signalOpsPerMinute: 0 });
  try {
    await page.goto(`${url}/runs?plan=e2e-bulk-stop`);
    await expect(page.locator("tr[data-run]")).toHaveCount(2);
    await page.getByRole("checkbox", { name: "Select all runs shown" }).check();
    await page.getByRole("region", { name: "Selected runs" }).getByRole("button", { name: "Pause…" }).click();
    const dialog = page.getByRole("dialog", { name: "Pause 2 runs" });
    await expect(dialog).toContainText("This concerns 2 runs");
    expect.soft(await violationsOfBoth(page)).toEqual([]);
    await dialog.getByLabel(/Reason/).fill("maintenance");
    await dialog.getByRole("button", { name: "Pause 2 runs" }).press("Enter");
    await expect(progress(page)).toHaveAttribute("data-state", "PACED");
    await expect(page.getByRole("heading", { name: "Pause 2 runs" })).toBeFocused();

    await page.getByRole("button", { name: "Stop the bulk action…" }).click();
    const stop = page.getByRole("alertdialog", { name: "Stop the bulk action" });
    await expect(stop).toContainText("2 signals that are not sent yet will not be sent");
    expect.soft(await violationsOfBoth(page)).toEqual([]);
    const send = stop.getByRole("button", { name: "Stop the bulk action" });
    await expect(send).toBeDisabled();
    await stop.getByLabel(/Reason/).fill("the wrong runs");
    await send.click();
    await expect(progress(page)).toHaveAttribute("data-state", "STOPPED");
    await expect(progress(page)).toContainText("Stopped: 0 of 2 sent");
    await expect(page.locator("[data-result=NOT_SENT]")).toHaveCount(2);
    await expect(page.getByRole("link", { name: "Stopped before 2" })).toBeVisible();
    await expect(page.getByRole("button", { name: "Stop the bulk action…" })).toHaveAccessibleDescription(
      "It is stopped.",
    );
    for (const runId of runs) expect(await receiptsOf(url, runId)).toEqual([]);
  } finally {
    await limitProject(url, null);
    for (const runId of runs) await cancelRun(url, runId);
  }
});

test("a bulk of somebody else is not there", async ({ page, url }) => {
  await page.goto(`${url}/bulk/bm9uZQ`);
  await expect(page.locator("main")).toContainText(/There is nothing here|could not be loaded/);
});
