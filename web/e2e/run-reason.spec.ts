// What a person has written before something is done is not lost to a key.
import type { Locator, Page } from "@playwright/test";
import { become, cancelRun, expect, startRun, status, test } from "./page";

/** The first Esc asks about what was written and leads to the way back; with nothing written it is the way back. */
async function outlasts(page: Page, open: () => Promise<void>): Promise<void> {
  const dialog: Locator = page.locator("dialog[open]");
  await open();
  await expect(dialog).toBeVisible();
  await page.keyboard.press("Escape");
  await expect(dialog).toHaveCount(0);
  await open();
  const reason = dialog.getByLabel(/reason/i);
  await reason.fill("half typed");
  await page.keyboard.press("Escape");
  await expect(dialog.getByText("Press Esc again to discard what you typed.")).toBeVisible();
  await expect(reason).toHaveValue("half typed");
  await expect(dialog.getByRole("button", { name: "Cancel", exact: true })).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(dialog).toHaveCount(0);
}

test("a reason half written outlasts the first Esc, for one run, for many and in the inbox", async ({ page, url }) => {
  const plan = `reason-${Date.now()}`;
  const runId = await startRun(
    url,
    plan,
    ["a", "b"].map((stepId) => ({ stepId, type: "MANUAL", inputs: { instructions: "Look." } })),
  );
  await page.goto(`${url}/runs/${runId}`);
  await become(page, "dev-admin");
  await expect(status(page)).toHaveText("Waiting for a person");
  await outlasts(page, () => page.getByRole("button", { name: "Pause…" }).click());
  await page.goto(`${url}/runs/${runId}?view=steps`);
  await page.getByRole("checkbox", { name: "Select all steps shown" }).check();
  await outlasts(page, () => page.getByRole("button", { name: "Skip step…" }).click());
  await page.goto(`${url}/runs?plan=${plan}`);
  await page.getByRole("checkbox", { name: "Select all runs shown" }).check();
  await outlasts(page, () =>
    page.getByRole("region", { name: "Selected runs" }).getByRole("button", { name: "Pause…" }).click(),
  );
  await page.goto(`${url}/inbox`);
  await outlasts(page, () =>
    page
      .locator(`li[data-run="${runId}"]`)
      .first()
      .getByRole("button", { name: /^Complete/ })
      .click(),
  );
  await cancelRun(url, runId);
});
