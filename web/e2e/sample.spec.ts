import { load } from "./dvt";
import { expect, status, sync, test } from "./page";

test.use({ alone: true });

test("the sample run moves live to its end", async ({ page, url }) => {
  test.skip(load().own === null, "a dvt that was started elsewhere has no sample run of its own left to watch");
  await page.goto(`${url}/runs?plan=shop`);
  await expect(sync(page)).toContainText("Live");
  const row = page.locator("tr[data-run]").first();
  await row.getByRole("link").click();
  await expect(page).toHaveURL(/\/runs\/[^/]+$/);
  await expect(sync(page)).toContainText("Live");
  await expect(page.getByRole("group", { name: /graph/i }).getByRole("button").first()).toBeVisible();
  await expect(status(page)).toHaveText("Completed", { timeout: 240_000 });
  await expect(page).toHaveTitle(/✓ .* Completed/);
  await page.getByRole("link", { name: "Events" }).click();
  await expect(page.locator('[data-event="RunCompleted"]')).toBeVisible();
  await page.getByRole("link", { name: "Steps" }).click();
  await page.getByRole("table").locator("[data-index]").first().getByRole("button").click();
  await expect(page.getByTestId("step-panel")).toBeVisible();
});
