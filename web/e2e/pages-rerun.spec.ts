// Runs that have ended are run again together.
import { violationsOfBoth } from "./look";
import { cancelRun, expect, sleeps, startRun, status, test } from "./page";

test("runs that have ended are rerun together, and the page says what became of them", async ({ page, url }) => {
  const plan = `rerun-${Date.now()}`;
  const runs = await Promise.all(Array.from({ length: 2 }, () => startRun(url, plan, sleeps(600_000, 1))));
  for (const runId of runs) await cancelRun(url, runId);
  await page.goto(`${url}/runs?plan=${plan}`);
  await expect(page.locator("tr[data-run]")).toHaveCount(2);
  await page.getByRole("checkbox", { name: "Select all runs shown" }).check();
  const bar = page.getByRole("region", { name: "Selected runs" });
  await expect(bar.getByRole("button", { name: "Pause…" })).toHaveAttribute("aria-disabled", "true");
  await bar.getByRole("button", { name: "Rerun…" }).click();
  const dialog = page.getByRole("dialog", { name: "Rerun 2 runs" });
  await expect(dialog).toContainText("This concerns 2 runs");
  expect.soft(await violationsOfBoth(page)).toEqual([]);
  await dialog.getByLabel(/Reason/).fill("the source is back");
  await dialog.getByRole("button", { name: "Rerun 2 runs" }).click();
  await expect(page.getByTestId("bulk-progress")).toContainText("2 of 2 sent");
  await expect(page.getByRole("table").getByText("New run")).toHaveCount(2);
  await expect(page.getByTestId("bulk-runs")).toContainText("2 running", { timeout: 30_000 });
  expect.soft(await violationsOfBoth(page)).toEqual([]);
  await page.getByRole("button", { name: /^Receipts/ }).click();
  await expect(page.getByRole("region", { name: "Receipts" })).toContainText("Rerun 2 runs");
  await page.keyboard.press("Escape");
  await page
    .getByRole("link", { name: /^Rerun|[0-9a-f]{8}/ })
    .first()
    .click();
  await expect(status(page)).toBeVisible();
});

test("a retry's receipt is one line in the run's bar, up to what followed", async ({ page, url }) => {
  const runId = await startRun(url, `line-${Date.now()}`, [
    {
      stepId: "load",
      type: "COMMAND",
      inputs: { argv: ["ls", "/no-such-file"] },
      retry: { maxAttempts: 1, initialBackoffMs: 100, backoffMultiplier: 1, maxBackoffMs: 100 },
    },
  ]);
  await page.goto(`${url}/runs/${runId}`);
  await expect(page.getByTestId("root-cause").first()).toContainText("load");
  await page.getByRole("button", { name: "Retry step…" }).first().click();
  await page.getByRole("dialog").getByRole("button", { name: "Retry step" }).click();
  const line = page.locator('main [data-receipt="RETRY_STEP"]');
  await expect(line).toContainText("failed again after", { timeout: 30_000 });
  await cancelRun(url, runId);
});
