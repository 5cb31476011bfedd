// The log of a step: as long as it is, found in on the server, and never anything but text.
import { ask } from "./api";
import { expect, startRun, status, test } from "./page";

const ONCE = { maxAttempts: 1, initialBackoffMs: 100, backoffMultiplier: 1, maxBackoffMs: 100 };
const NEEDLES = 3;
// A command that prints a million lines at once loses most of them before they are kept: it prints as fast as is kept.
const BATCHES = 40;
const BATCH = 4_000;

test("20 of a log of 160,000 lines the error is seen at once, all of it is searched, and 200 rows are in the page", async ({ page, url }) => {
  test.setTimeout(180_000);
  const needle = "sleep 1; echo 'the needle is here'; sleep 1";
  const print = `i=0; while [ $i -lt ${BATCHES / 2} ]; do seq 1 ${BATCH}; sleep 0.1; i=$((i+1)); done`;
  const script = `${needle}; ${print}; ${needle}; ${print}; ${needle}; echo 'boom: no such table' >&2; exit 3`;
  const runId = await startRun(url, "log-long", [{ stepId: "print", type: "COMMAND", inputs: { argv: ["sh", "-c", script] }, retry: ONCE }]);
  const state = `{ run(runId: "${runId}") { substatus } stepLog(runId: "${runId}", stepId: "print", first: 1) { totalLines } }`;
  const read = (): Promise<{ run: { substatus: string }; stepLog: { totalLines: number } | null }> => ask(url, "dev-admin", state);
  await expect.poll(async () => (await read().catch(() => null))?.run.substatus, { timeout: 120_000 }).toBe("AWAITING_OPERATOR");
  const lines = (await read()).stepLog?.totalLines ?? 0;
  expect(lines).toBeGreaterThan(50_000);
  await page.goto(`${url}/runs/${runId}`);
  await expect(status(page)).toHaveText("Awaiting operator");
  const asked = Date.now();
  await page.keyboard.press("l");
  const log = page.getByRole("region", { name: "Log" });
  await expect(log.getByText("boom: no such table", { exact: true })).toBeVisible();
  const seen = Date.now() - asked;
  await expect(page.getByText(`${lines.toLocaleString("en-GB")} lines`)).toBeVisible();
  const sought = Date.now();
  await page.keyboard.press("Control+f");
  await page.keyboard.type("needle");
  const matches = page.getByTestId("matches");
  await expect(matches).toHaveText(`1 of ${NEEDLES}`);
  const found = Date.now() - sought;
  await expect(log.getByText("the needle is here")).toBeVisible();
  await page.keyboard.press("Enter");
  await expect(matches).toHaveText(`2 of ${NEEDLES}`);
  await expect(log.getByText("the needle is here")).toBeVisible();
  expect(await log.locator("[data-line]").count()).toBeLessThanOrEqual(200);
  await expect(page).toHaveURL(/q=needle/);
  // oxlint-disable-next-line no-console -- the figures are the point
  console.log(`${lines} lines: first error line ${seen} ms (goal 1000), find ${found} ms (goal 2000)`);
});

test("21 escape codes and markup in a log are text; a line is a link", async ({ page, url, browser }) => {
  const print = String.raw`printf '\033[31mred\033[0m plain \033]8;;http://x\007link\n<script>window.owned = 1</script><img src=x onerror=window.owned=1>\n'; echo 'Error: <b>bold</b>' >&2; exit 1`;
  const runId = await startRun(url, "log-text", [{ stepId: "print", type: "COMMAND", inputs: { argv: ["sh", "-c", print] }, retry: ONCE }]);
  await page.goto(`${url}/runs/${runId}?step=print`);
  const log = page.getByRole("region", { name: "Log" });
  await expect(log.getByText("<script>window.owned = 1</script><img src=x onerror=window.owned=1>")).toBeVisible();
  await expect(log.getByText("Error: <b>bold</b>", { exact: true })).toBeVisible();
  await expect(log.getByText("red", { exact: true })).toHaveAttribute("data-colour", "ansi-red");
  expect(await page.evaluate(() => "owned" in window)).toBe(false);
  expect(await log.locator("script, img, b, a").count()).toBe(0);

  await log.getByRole("button", { name: "2", exact: true }).click();
  await expect(page).toHaveURL(/line=2/);
  const other = await (await browser.newContext()).newPage();
  await other.goto(page.url());
  await expect(other.locator('[data-line="2"]')).toHaveAttribute("aria-current", "true");
  await other.context().close();
  const download = page.waitForEvent("download");
  await page.getByRole("button", { name: "Download" }).click();
  expect((await download).suggestedFilename()).toContain("print-1.log");
});
