// An alert is seen on its run and on the page of alerts, live, and taken on by a person whom others then see.
import { signal } from "./api";
import { violationsOfBoth } from "./look";
import { become, cancelRun, expect, sleeps, startRun, status, test } from "./page";

test("an alert appears on its run and on its page, is taken on, and another person sees by whom", async ({
  page,
  url,
}) => {
  const runId = await startRun(url, "alerts", sleeps(60_000, 1));
  await page.goto(`${url}/runs/${runId}`);
  await expect(status(page)).toHaveText("Running");
  const note = `twice as slow as yesterday ${runId}`;
  await signal(url, "dev-system", runId, { escalateAlert: { level: "HIGH", note } });
  await page.getByRole("button", { name: "High alert" }).click();
  const listed = page.getByRole("dialog", { name: "Alerts of this run" });
  await expect(listed).toContainText(note);
  expect(await violationsOfBoth(page)).toEqual([]);
  await listed.getByRole("button", { name: "Close" }).click();

  await page.goto(`${url}/alerts`);
  const item = page.getByRole("listitem").filter({ hasText: note });
  await expect(item).toContainText("dev-system asks for people");
  await item.getByRole("button", { name: /^Acknowledge/ }).click();
  await page.getByLabel(/^Note/).fill("on it");
  await page.locator("dialog[open]").getByRole("button", { name: "Acknowledge" }).click();
  await expect(item).toContainText(/Acknowledged by dev-engineer .*: “on it”/);
  await page.goto(`${url}/runs/${runId}`);
  await expect(status(page)).toHaveText("Running");
  await expect(page.getByRole("button", { name: "High alert" })).toHaveCount(0);

  await become(page, "dev-viewer");
  await page.goto(`${url}/alerts`);
  await expect(item).toContainText("Acknowledged by dev-engineer");
  await become(page, "dev-engineer");
  await cancelRun(url, runId);
  await page.goto(`${url}/alerts?stage=RESOLVED`);
  await expect(item).toContainText("Resolved");
});
