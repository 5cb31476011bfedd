// An incident is seen on its run and on its pages, taken on, made worse, and closed with its cause, by keyboard alone.
import { ask, signal } from "./api";
import { expectFits, violationsOfBoth } from "./look";
import { become, cancelRun, expect, sleeps, startRun, status, test } from "./page";

/** Waits until dvt has opened the incident of the run's alert. */
async function incidentOf(url: string, runId: string): Promise<string> {
  const query = "query I($runId: String!) { incidents(runId: $runId) { edges { node { id } } } }";
  let id: string | undefined;
  await expect
    .poll(
      async () => {
        const { incidents } = await ask<{ incidents: { edges: { node: { id: string } }[] } }>(
          url,
          "dev-viewer",
          query,
          {
            runId,
          },
        );
        id = incidents.edges[0]?.node.id;
        return id;
      },
      { timeout: 60_000 },
    )
    .toBeDefined();
  return id ?? "";
}

test("an incident is opened from its run, taken on, raised and closed by keyboard, and others see by whom", async ({
  page,
  url,
}) => {
  const runId = await startRun(url, "incidents", sleeps(120_000, 1));
  const note = `the source answers no more ${runId}`;
  await signal(url, "dev-system", runId, { escalateAlert: { level: "HIGH", note } });
  const id = await incidentOf(url, runId);

  await page.goto(`${url}/runs/${runId}`);
  await expect(status(page)).toHaveText("Running");
  await page.getByRole("link", { name: "Incident severity 2" }).press("Enter");
  await expect(page).toHaveURL(new RegExp(`/incidents/${id}`));
  await expect(page.getByText("Nobody has taken it on.")).toBeVisible();
  await expect(page.getByRole("link", { name: "Open the runbook" })).toHaveAttribute("href", /sev-2-partial\.md$/);

  const dialog = page.locator("dialog[open]");
  await page.getByRole("button", { name: "Take it on…" }).press("Enter");
  await page.keyboard.type("calling the owner of the source");
  await page.keyboard.press("Enter");
  await expect(dialog).toHaveCount(0);
  await expect(page.getByText(/^Taken on by dev-engineer/)).toBeVisible();
  // The button that opened the dialog is gone; Tab goes on beside it.
  await page.keyboard.press("Tab");
  await expect(page.getByRole("button", { name: "Add a note…" })).toBeFocused();
  await page.getByRole("button", { name: "Change the severity…" }).press("Enter");
  await dialog.getByLabel("Severity").selectOption({ label: "Severity 1: dvt is down, or data may be wrong" });
  await dialog.getByLabel(/^Why/).fill("every run waits for it");
  await page.keyboard.press("Enter");
  const told = page.getByRole("listitem");
  await expect(told.filter({ hasText: "dev-engineer set it to severity 1" })).toContainText("every run waits for it");
  await expect(told.filter({ hasText: "dev-engineer took it on" })).toContainText("calling the owner of the source");
  expect(await violationsOfBoth(page)).toEqual([]);
  for (const width of [1440, 1280, 390]) {
    await page.setViewportSize({ width, height: 800 });
    await expectFits(page, `the incident at ${width} px`);
  }

  await become(page, "dev-viewer");
  await page.keyboard.press("g");
  await page.keyboard.press("e");
  const row = page.getByRole("row").filter({ hasText: note });
  await expect(row).toContainText("Severity 1");
  await expect(row).toContainText("dev-engineer");
  await expectFits(page, "the incidents at 390 px");
  expect(await violationsOfBoth(page)).toEqual([]);
  await row.getByRole("link").click();
  await expect(page.getByRole("button", { name: "Close…" })).toHaveAttribute("aria-disabled", "true");

  await become(page, "dev-engineer");
  await page.getByRole("button", { name: "Close…" }).press("Enter");
  await expect(dialog).toContainText("1 of its alerts is still open");
  await expect(dialog.getByRole("button", { name: "Close", exact: true })).toBeDisabled();
  await page.keyboard.type("the source was restarted");
  await page.keyboard.press("Enter");
  await expect(page.getByText(/^Closed by dev-engineer/)).toBeVisible();
  await page.goto(`${url}/incidents`);
  await expect(page.getByRole("button", { name: "Show closed too" })).toBeVisible();
  await expect(row).toHaveCount(0);
  await page.getByRole("button", { name: "Show closed too" }).click();
  await expect(row).toContainText("Closed by dev-engineer");
  await cancelRun(url, runId);
});
