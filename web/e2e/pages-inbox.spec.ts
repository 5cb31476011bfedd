import type { Page } from "@playwright/test";
import { become, expect, startRun, test } from "./page";

function gate(stepId: string) {
  return [
    { stepId, type: "MANUAL" as const, inputs: { instructions: "Compare the totals with the ledger." } },
    { stepId: "publish", type: "NOOP" as const, dependsOn: [stepId], inputs: {} },
  ];
}

function item(page: Page, runId: string) {
  return page.locator(`li[data-run="${runId}"]`);
}

test("38 what waits is listed live and decided by keys, also at 360 px", async ({ page, url }) => {
  await page.setViewportSize({ width: 360, height: 740 });
  await page.goto(`${url}/inbox`);
  await become(page, "dev-admin");
  await expect(page.getByRole("heading", { name: "Inbox" })).toBeVisible();
  const runId = await startRun(url, "e2e-inbox", gate("check_totals"));
  await expect(item(page, runId)).toContainText("Compare the totals");
  await expect(page.getByTestId("inbox-count")).toHaveText(/\d+/);
  await expect(page).toHaveTitle(/^\(\d+\) ✋ Inbox/);
  await item(page, runId).getByRole("link").focus();
  await page.keyboard.press("a");
  const dialog = page.getByRole("dialog", { name: /^Complete step check_totals/ });
  await expect(dialog.getByTestId("preview")).toBeVisible();
  await dialog.getByLabel(/Evidence/).fill("https://example.test/ledger");
  await dialog.getByLabel(/Reason/).fill("they agree");
  await dialog.getByRole("button", { name: /complete step$/i }).click();
  await expect(item(page, runId)).toHaveCount(0);
  expect(await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)).toBe(
    0,
  );
  await page.getByRole("link", { name: "Done" }).click();
  await expect(page).toHaveURL(/show=done/);
  await expect(page.locator("main")).toContainText("Complete step check_totals");
});

test("28 what is for others is listed with the reason", async ({ page, url }) => {
  const runId = await startRun(url, "e2e-inbox-others", gate("sign_off"));
  await page.goto(`${url}/inbox`);
  await become(page, "dev-engineer");
  // dev-engineer has started the run: somebody else must complete its steps.
  await page.getByRole("link", { name: /^All/ }).click();
  await expect(item(page, runId)).toContainText(/you started the run/i);
  await expect(item(page, runId).getByRole("button", { name: "Complete: sign_off" })).toHaveAttribute(
    "aria-disabled",
    "true",
  );
  await page.getByRole("link", { name: /^For me/ }).click();
  await expect(page.getByRole("heading", { name: "Inbox" })).toBeVisible();
  await expect(item(page, runId)).toHaveCount(0);
});

test("35 what is decided gives the focus to what comes next, and the last to where one is", async ({ page, url }) => {
  const waits = ["first", "second"].map((stepId) => ({
    stepId,
    type: "MANUAL" as const,
    dependsOn: [],
    inputs: { instructions: "Look." },
  }));
  const env = `focus${Date.now()}`;
  const runId = await startRun(url, "e2e-inbox-focus", waits, env);
  await page.goto(`${url}/inbox?env=${env}`);
  await become(page, "dev-admin");
  await expect(item(page, runId)).toHaveCount(2);
  for (const left of [1, 0]) {
    await item(page, runId).first().getByRole("link").focus();
    await page.keyboard.press("a");
    const send = page.getByRole("dialog").getByRole("button", { name: /complete step$/i });
    await expect(send).toBeEnabled();
    await send.press("Enter");
    await expect(item(page, runId)).toHaveCount(left, { timeout: 20_000 });
    if (left > 0) await expect(item(page, runId).getByRole("link")).toBeFocused();
  }
  await expect(page.getByRole("link", { name: /^For me/ })).toBeFocused();
});
