// What people do on the pages Retention, Secret reads and Erasure.
import type { Page } from "@playwright/test";
import { ask } from "./api";
import { expectFits, violationsOfBoth } from "./look";
import { become, expect, startRun, status, test } from "./page";

/** The page holds to the rules of all pages, in both themes and on a phone. */
async function expectSound(page: Page, what: string): Promise<void> {
  expect(await violationsOfBoth(page)).toEqual([]);
  await page.setViewportSize({ width: 390, height: 844 });
  await expectFits(page, what);
  await page.setViewportSize({ width: 1280, height: 800 });
}

test("a retention policy is previewed, saved and put back, and a hold is placed and lifted", async ({ page, url }) => {
  await page.goto(`${url}/admin/retention`);
  await become(page, "dev-admin");
  await page.getByRole("button", { name: "Edit…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Runs, until their log moves into the archive").fill("30");
  await expect(dialog.getByRole("region", { name: "What this changes" })).toContainText("30");
  await dialog.getByLabel(/Reason/).fill("a month is enough");
  await dialog.getByRole("button", { name: "Save" }).click();
  await expect(dialog).toHaveCount(0);
  await expect(page.locator("main")).toContainText(/Version \d+ of this tenant's policy applies/);
  const policy = page.getByRole("region", { name: "Retention" });
  await expect(policy.getByRole("row", { name: /Runs, until their log moves/ })).toContainText("30 days");

  await page.getByRole("button", { name: "Place a hold…" }).click();
  await dialog.getByLabel("Covers").selectOption("PLAN");
  await dialog.getByLabel("Which one").fill("nightly");
  await dialog.getByLabel(/^Reason/).fill("case 12");
  await dialog.getByRole("button", { name: "Place a hold" }).click();
  await expect(dialog).toHaveCount(0);
  const holds = page.getByRole("region", { name: "Legal holds" });
  await expect(holds.getByRole("row", { name: /All runs of plan nightly/ })).toContainText("case 12");
  await expectSound(page, "the page Retention");
  await page.getByRole("button", { name: "Lift the hold on nightly" }).click();
  const alert = page.getByRole("alertdialog");
  await alert.getByLabel(/^Reason/).fill("closed");
  await alert.getByRole("button", { name: "Lift" }).click();
  await expect(page.locator("main")).toContainText("No hold is open.");

  await become(page, "dev-viewer");
  await expect(page.getByText("You may not see this")).toBeVisible();
});

test("an auditor finds who read a secret, and no value", async ({ page, url }) => {
  const runId = await startRun(url, "e2e-secret-reads", [
    {
      stepId: "load",
      type: "COMMAND",
      inputs: { argv: ["true"] },
      secretRefs: [{ provider: "file", key: "warehouse/password" }],
    },
  ]);
  await page.goto(`${url}/runs/${runId}`);
  await expect(status(page)).toHaveText("Completed");
  await page.goto(`${url}/admin/secrets`);
  await become(page, "dev-sre");
  await page.getByLabel("Run id").fill(runId);
  await page.getByRole("button", { name: "Find" }).click();
  const rows = page.getByRole("region", { name: "Secret reads" }).locator("tbody tr");
  await expect(rows).toHaveCount(1);
  await expect(rows).toContainText("file:warehouse/password");
  await expect(rows).toContainText("load");
  await expect(page.locator("body")).not.toContainText("correct-horse");
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Export CSV" }).click(),
  ]);
  expect(download.suggestedFilename()).toBe("secret-reads.csv");
  await expectSound(page, "the page Secret reads");
});

test("one person asks for an erasure after its counts, another confirms it, and a hold stops it", async ({
  page,
  url,
}) => {
  await startRun(url, "e2e-erasure", [{ stepId: "s", type: "NOOP", inputs: {} }]);
  await page.goto(`${url}/admin/erasure`);
  await become(page, "dev-admin");
  await page.getByLabel("Principal", { exact: true }).fill("dev-engineer");
  await page.getByRole("button", { name: "Count what it would erase" }).click();
  await expect(page.getByRole("heading", { name: "What erasing dev-engineer would do now" })).toBeVisible();
  const counted = page.getByRole("region", { name: "What erasing it would do now" });
  await expect(counted.getByRole("row", { name: /table run/ }).first()).toContainText("name replaced");
  await page.getByRole("button", { name: "Ask to erase…" }).click();
  const dialog = page.getByRole("alertdialog");
  await dialog.getByLabel(/^Reason/).fill("asked by letter");
  await expect(dialog.getByRole("button", { name: "Ask to erase" })).toBeDisabled();
  await dialog.getByLabel(/to confirm/).fill("dev-engineer");
  await dialog.getByRole("button", { name: "Ask to erase" }).click();
  await expect(dialog).toHaveCount(0);
  const row = page.getByRole("region", { name: "Requests" }).locator("tbody tr").filter({ hasText: "dev-engineer" });
  await expect(row).toContainText("Waits for another person");
  const confirm = row.getByRole("button", { name: "Confirm the erasure of dev-engineer" });
  await expect(confirm).toHaveAttribute("aria-disabled", "true");
  await expectSound(page, "the page Erasure");

  await become(page, "dev-sre");
  await confirm.click();
  await expect(dialog).toContainText("asked by letter");
  await dialog.getByLabel(/^Reason/).fill("the letter is here");
  await dialog.getByLabel(/to confirm/).fill("dev-engineer");
  await dialog.getByRole("button", { name: "Confirm" }).click();
  await expect(row).toContainText(/dvt store erase [0-9a-f-]+ --config owner.yaml --yes/);
  const hold = { requestId: "e2e-erasure-hold", kind: "SUBJECT", subject: "dev-engineer", reason: "case 12" };
  await ask(url, "dev-sre", "mutation H($input: PlaceHoldInput!) { placeHold(input: $input) { hold { id } } }", {
    input: hold,
  });
  await page.getByRole("button", { name: "Refresh" }).click();
  await expect(row).toContainText("Waits for a legal hold");
  await expect(row).toContainText("1 legal hold forbids this");
  await row.getByRole("button", { name: "Cancel the erasure of dev-engineer" }).click();
  await page
    .getByRole("dialog")
    .getByLabel(/^Reason/)
    .fill("withdrawn");
  await page.getByRole("dialog").getByRole("button", { name: "Cancel it" }).click();
  await expect(row).toContainText("Cancelled");

  await become(page, "dev-viewer");
  await page.goto(`${url}/admin/erasure`);
  await expect(page.locator("main")).toContainText("to read the audit log");
  await expect(page.getByRole("button", { name: "Count what it would erase" })).toHaveCount(0);
});
