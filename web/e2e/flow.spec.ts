import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { load, save, start, stop } from "./dvt";
import { held } from "./held";
import { become, cancelRun, expect, sleeps, startRun, status, sync, test } from "./page";

const ONCE = { maxAttempts: 1, initialBackoffMs: 100, backoffMultiplier: 1, maxBackoffMs: 100 };

test("pause drains, says so, and resumes", async ({ page, url }) => {
  const { step, release } = held("load");
  const runId = await startRun(url, "e2e-pause", [
    step,
    { stepId: "report", type: "NOOP", dependsOn: ["load"], inputs: {} },
  ]);
  await page.goto(`${url}/runs/${runId}`);
  await expect(status(page)).toHaveText("Running");
  await page.getByRole("button", { name: "Pause…" }).click();
  const dialog = page.getByRole("dialog");
  await expect(dialog).toContainText("No further step starts");
  await dialog.getByLabel(/Reason/).fill("warehouse maintenance");
  await dialog.getByRole("button", { name: "Pause" }).click();
  await expect(page.locator('[data-receipt="PAUSE"]')).toContainText(/Applied at seq \d+/);
  await expect(status(page)).toHaveText(/^Paused · draining 1/);
  await expect(page.getByText("warehouse maintenance").first()).toBeVisible();
  release();
  await expect(status(page)).toHaveText("Paused");
  const resume = page.getByRole("button", { name: "Resume…" });
  await expect(resume).not.toHaveAttribute("aria-disabled", "true");
  await resume.click();
  await page.getByRole("dialog").getByRole("button", { name: "Resume" }).click();
  await expect(status(page)).toHaveText("Completed", { timeout: 30_000 });
  await page.getByRole("link", { name: /Receipts/ }).click();
  await expect(page.getByRole("main").getByText(/nothing is running since seq/)).toBeVisible();
});

test("a broken step is found, mended and retried", async ({ page, url }) => {
  const folder = mkdtempSync(join(tmpdir(), "dvt-e2e-files-"));
  const file = join(folder, "orders.csv");
  const runId = await startRun(url, "e2e-broken", [
    { stepId: "prepare", type: "NOOP", inputs: {} },
    { stepId: "load", type: "COMMAND", dependsOn: ["prepare"], inputs: { argv: ["ls", file] }, retry: ONCE },
    { stepId: "report", type: "NOOP", dependsOn: ["load"], inputs: {} },
  ]);
  await page.goto(`${url}/runs/${runId}`);
  const cause = page.getByTestId("root-cause");
  await expect(cause).toContainText("load");
  await expect(cause).toContainText("EXIT_STATUS");
  await expect(cause).toContainText("Nothing new starts: 1 step waits, it needs this one.");
  await expect(status(page)).toHaveText("Failed, waiting");
  await expect(page.getByText(/left to retry/)).toBeVisible();
  await cause.getByRole("link", { name: /Open log|Log line/ }).click();
  await expect(page.getByRole("region", { name: "Log" })).toContainText("No such file");

  writeFileSync(file, "id\n1\n");
  await page.locator("main > div header").getByRole("button", { name: "Retry step…" }).click();
  const dialog = page.getByRole("dialog");
  await expect(dialog).toContainText("runs again as Retry #1");
  await dialog.getByLabel(/Reason/).fill("the file is there now");
  await dialog.getByRole("button", { name: "Retry step" }).click();
  await expect(page.locator('main [data-receipt="RETRY_STEP"]')).toContainText(/Applied at seq \d+/);
  await expect(status(page)).toHaveText("Completed");
  await expect(page.getByTestId("step-panel")).toContainText("Retry #1");
  await expect(cause).toBeHidden();
  rmSync(folder, { recursive: true });
});

test("a viewer sees every action, off, with the reason", async ({ page, url }) => {
  const runId = await startRun(url, "e2e-viewer", sleeps(600_000, 1));
  await page.goto(`${url}/runs/${runId}`);
  await become(page, "dev-viewer");
  await expect(status(page)).toHaveText("Running");
  for (const name of ["Pause…", "Cancel run…"]) {
    const button = page.getByRole("button", { name });
    await expect(button).toHaveAttribute("aria-disabled", "true");
    await expect(button).toHaveAccessibleDescription(/Operator|Engineer|Admin/);
    await button.click({ force: true });
    await expect(page.getByRole("dialog")).toHaveCount(0);
  }
  await cancelRun(url, runId);
});

test("a plan that does not hold is refused with all that is wrong", async ({ page, url }) => {
  await page.goto(`${url}/start`);
  const form = page.getByRole("main");
  await form.getByLabel("Plan (YAML or JSON)").fill('{"schemaVersion":"v1.2","steps":[]}');
  await form.getByLabel("Project", { exact: true }).fill("shop");
  await form.getByLabel("Environment", { exact: true }).fill("dev");
  await form.getByRole("button", { name: "Start run" }).click();
  await expect(form.getByRole("alert")).toContainText("PLAN_INVALID");
  await expect(form.getByRole("alert").getByRole("listitem").nth(1)).toBeVisible();
});

test("the graph is walked by keys", async ({ page, url }) => {
  const runId = await startRun(url, "e2e-keys", sleeps(50, 3));
  await page.goto(`${url}/runs/${runId}`);
  await page.getByRole("button", { name: /^sleep_1,/ }).focus();
  await page.keyboard.press("ArrowRight");
  await expect(page.getByRole("button", { name: /^sleep_2,/ })).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(page.getByTestId("step-panel")).toContainText("sleep_2");
  await expect(page).toHaveURL(/step=sleep_2/);
  await page.keyboard.press("Escape");
  await expect(page.getByTestId("step-panel")).toHaveCount(0);
});

test("a killed server is Offline, and Live again when it is back", async ({ page, url }) => {
  const { own } = load();
  test.skip(own === null, "a dvt that was started elsewhere is not ours to kill");
  if (own === null) return;
  const runId = await startRun(url, "e2e-restart", sleeps(8_000, 3));
  await page.goto(`${url}/runs/${runId}`);
  await expect(sync(page)).toContainText("Live");
  await expect(status(page)).toHaveText("Running");
  await stop(own.pid, "SIGKILL");
  await expect(sync(page)).toContainText("Offline");
  await expect(page.getByTestId("took")).toHaveText(/^≥ /);
  const pause = page.getByRole("button", { name: "Pause…" });
  await expect(pause).toHaveAccessibleDescription(/no connection/);
  save(await start(own));
  await expect(sync(page)).toContainText("Live", { timeout: 30_000 });
  await expect(status(page)).toHaveText("Completed", { timeout: 60_000 });
});
