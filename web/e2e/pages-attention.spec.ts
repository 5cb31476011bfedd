import type { Page } from "@playwright/test";
import { violationsOfBoth } from "./look";
import { become, expect, type PlanStep, startRun, test } from "./page";

/** A step that fails, and one that needs it. */
const FAILS: PlanStep[] = [
  { stepId: "load", type: "COMMAND", inputs: { dir: ".", argv: ["sh", "-c", "exit 1"] } },
  { stepId: "build", type: "NOOP", dependsOn: ["load"], inputs: {} },
];

function item(page: Page, runId: string) {
  return page.locator(`li[data-run="${runId}"]`);
}

test("23 a failed step is retried from the first page, with its preview, and the item says what became of it", async ({
  page,
  url,
}) => {
  await page.goto(`${url}/runs`);
  const runId = await startRun(url, "e2e-attention", FAILS);
  const link = page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: /^Attention/ });
  await expect(link).toContainText(/[1-9]/);
  await expect(page).toHaveTitle(/^\([1-9]\d*\) Runs/);
  await link.click();
  await expect(page).toHaveURL(`${url}/`);
  await expect(item(page, runId)).toContainText("1 step waits, and needs this one");
  expect.soft(await violationsOfBoth(page)).toEqual([]);
  await item(page, runId)
    .getByRole("button", { name: /^Retry…/ })
    .click();
  const dialog = page.getByRole("dialog", { name: /^Retry step load/ });
  await expect(dialog.getByTestId("preview")).toBeVisible();
  await dialog.getByLabel(/Reason/).fill("the source is there again");
  await dialog.getByRole("button", { name: /^Retry step$/ }).click();
  await expect(dialog).toHaveCount(0);
  await expect(page).toHaveURL(`${url}/`);
  await expect(item(page, runId)).toContainText("it failed again");

  await become(page, "dev-viewer");
  await page.goto(`${url}/`);
  // Only others can do it, and it ends within ten minutes: the viewer may have to wake somebody.
  await expect(item(page, runId)).toContainText(/Waits for dev-admin, dev-engineer/);
  await expect(item(page, runId).getByRole("button")).toHaveCount(0);
});

test("23 a run is cancelled from the first page and leaves it", async ({ page, url }) => {
  const runId = await startRun(url, "e2e-attention-cancel", FAILS);
  await page.goto(`${url}/`);
  await item(page, runId)
    .getByRole("button", { name: /^Cancel run…/ })
    .click();
  const dialog = page.getByRole("alertdialog", { name: /^Cancel run/ });
  await expect(dialog.getByTestId("preview")).toBeVisible();
  await dialog.getByLabel(/^Type/).fill(runId.slice(0, 8));
  await dialog.getByRole("button", { name: /^Cancel run$/ }).click();
  await expect(item(page, runId)).toHaveCount(0);
  await page.getByRole("banner").getByRole("link", { name: "dvt" }).click();
  await expect(page).toHaveURL(`${url}/`);
});
