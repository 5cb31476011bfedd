// The log of a step: of any length, searched on the server, and always shown as text.
import { ask } from "./api";
import { LINES, longLog, NEEDLE, NEEDLES, opened, sought } from "./log";
import { cancelRun, expect, signIn, startRun, status, test } from "./page";

interface Standing {
  run: { substatus: string };
  stepLog: { totalLines: number; missing: { to: number } | null } | null;
}

const ONCE = { maxAttempts: 1, initialBackoffMs: 100, backoffMultiplier: 1, maxBackoffMs: 100 };

test("20 of a log of 1,000,000 lines nothing is lost, the error is seen at once, all of it is searched, and 200 rows are in the page", async ({
  page,
  url,
}) => {
  const runId = await startRun(url, "log-long", [longLog()]);
  const read = `{ run(runId: "${runId}") { substatus } stepLog(runId: "${runId}", stepId: "print", first: 1) { totalLines missing { to } } }`;
  const stands = (): Promise<Standing | null> => ask<Standing>(url, "dev-admin", read).catch(() => null);
  await expect.poll(async () => (await stands())?.run.substatus, { timeout: 180_000 }).toBe("AWAITING_OPERATOR");
  // What the step printed, and dvt's own word about its end.
  expect((await stands())?.stepLog).toEqual({ totalLines: LINES + 1, missing: null });
  const asked: string[] = [];
  let quotes = 0;
  page.on("request", (request) => {
    const body = request.postData() ?? "";
    const name = /query (StepLog\w*)/.exec(body)?.[1];
    // The card of the cause reads at most seven lines and quotes five.
    if (name !== undefined && /"first":[5-7],/.test(body)) quotes += 1;
    else if (name !== undefined) asked.push(name);
  });
  await opened(page, `${url}/runs/${runId}`);
  const toOpen = asked.splice(0).length;
  await expect(page.getByTitle(`Find in ${(LINES + 1).toLocaleString("en-GB")} lines`)).toBeVisible();
  await sought(page);
  const toFind = asked.length;
  const log = page.getByRole("region", { name: "Log" });
  const matches = page.getByTestId("matches");
  await page.keyboard.press("Enter");
  await expect(matches).toHaveText(`2 of ${NEEDLES}`);
  await expect(log.getByText(NEEDLE)).toBeVisible();
  expect(await log.locator("[data-line]").count()).toBeLessThanOrEqual(200);
  await expect(page).toHaveURL(/q=needle/);
  // The figures `ui-log-error` and `ui-log-find` measure the time. It is short because nobody reads the whole log.
  expect(toOpen).toBeLessThanOrEqual(4);
  expect(quotes).toBeLessThanOrEqual(1);
  expect(toFind).toBeLessThanOrEqual(12);
});

test("21 escape codes and markup in a log are text; a line is a link", async ({ page, url, browser }) => {
  const print = String.raw`printf '\033[31mred\033[0m plain \033]8;;http://x\007link\n<script>window.owned = 1</script><img src=x onerror=window.owned=1>\n'; echo 'Error: <b>bold</b>' >&2; exit 1`;
  const runId = await startRun(url, "log-text", [
    { stepId: "print", type: "COMMAND", inputs: { argv: ["sh", "-c", print] }, retry: ONCE },
  ]);
  await page.goto(`${url}/runs/${runId}?step=print`);
  const log = page.getByRole("region", { name: "Log" });
  await expect(log.getByText("<script>window.owned = 1</script><img src=x onerror=window.owned=1>")).toBeVisible();
  await expect(log.getByText("Error: <b>bold</b>", { exact: true })).toBeVisible();
  await expect(log.getByText("red", { exact: true })).toHaveAttribute("data-colour", "ansi-red");
  expect(await page.evaluate(() => "owned" in window)).toBe(false);
  expect(await log.locator("script, img, b, a").count()).toBe(0);

  await log.getByRole("button", { name: "2", exact: true }).click();
  await expect(page).toHaveURL(/line=2/);
  const elsewhere = await browser.newContext();
  await signIn(elsewhere);
  const other = await elsewhere.newPage();
  await other.goto(page.url());
  await expect(other.locator('[data-line="2"]')).toHaveAttribute("aria-current", "true");
  await other.context().close();
  const download = page.waitForEvent("download");
  await page.getByRole("link", { name: "Download" }).click();
  expect((await download).suggestedFilename()).toContain("print-1.log");
});

test("the log that is asked for is in sight, at its error, as often as one asks; a link to a line names the attempt", async ({
  page,
  url,
  context,
}) => {
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  const lines =
    "i=0; while [ $i -lt 300 ]; do echo line $i; i=$((i+1)); done; sleep 0.3; echo ERROR: no such table >&2; exit 3";
  const runId = await startRun(url, "log-sight", [
    { stepId: "load", type: "COMMAND", inputs: { argv: ["sh", "-c", lines] }, retry: ONCE },
  ]);
  await page.goto(`${url}/runs/${runId}`);
  await expect(status(page)).toHaveText("Failed, waiting");
  const error = page.getByRole("region", { name: "Log" }).locator('[data-line="301"]');
  await page.keyboard.press("l");
  await expect(error).toContainText("no such table");
  await expect(error).toBeInViewport({ ratio: 1 });
  await expect(page.getByRole("region", { name: "Log" })).toBeFocused();
  await page.evaluate(() => scrollTo(0, 0));
  await page.keyboard.press("Home");
  // The browser moves it step by step.
  await expect.poll(() => page.getByRole("region", { name: "Log" }).evaluate((pane) => pane.scrollTop)).toBe(0);
  await expect(error).not.toBeInViewport();
  await page.keyboard.press("l");
  await expect(error).toBeInViewport({ ratio: 1 });
  await page.getByRole("button", { name: "Copy link to line 301" }).click();
  const clipboard = (): Promise<string> => page.evaluate(() => navigator.clipboard.readText());
  await expect.poll(clipboard).toMatch(/attempt=1/);
  const link = await clipboard();
  await page.goto(link);
  await expect(error).toBeInViewport({ ratio: 1 });
  const panel = page.getByTestId("step-panel");
  const scrolled = (): Promise<number> => page.evaluate(() => scrollY);
  const before = await scrolled();
  await panel.getByRole("button", { name: "Details" }).click();
  await expect(page).toHaveURL(/tab=worker/);
  await page.waitForTimeout(500);
  expect(await scrolled()).toBe(before);
  await cancelRun(url, runId);
});

test("the lines of a list of errors are read by one request", async ({ page, url }) => {
  const print = "i=1; while [ $i -le 30 ]; do echo line $i; echo ERROR number $i; i=$((i+1)); done; exit 3";
  const runId = await startRun(url, "log-errors", [
    { stepId: "load", type: "COMMAND", inputs: { argv: ["sh", "-c", print] }, retry: ONCE },
  ]);
  await page.goto(`${url}/runs/${runId}?step=load&line=1`);
  await expect(status(page)).toHaveText("Failed, waiting");
  await expect(page.getByRole("region", { name: "Log" }).locator('[data-line="2"]')).toContainText("number 1");
  const asked: string[] = [];
  page.on("request", (request) => {
    const body = request.postData() ?? "";
    // Where errors are is found by words.
    if (body.includes("stepLog(") && !body.includes('"find":"')) asked.push(body);
  });
  await page.getByRole("button", { name: "List of errors" }).click();
  const errors = page.getByRole("list", { name: "Lines that mention an error" });
  await expect(errors.getByRole("button")).toHaveCount(20);
  await expect(errors.getByRole("button", { name: /ERROR number 1$/ })).toBeVisible();
  await expect(errors.getByRole("button", { name: /ERROR number 20$/ })).toBeVisible();
  expect(asked).toHaveLength(1);
  await cancelRun(url, runId);
});

const FAILS_TWICE =
  "i=0; while [ $i -lt 120 ]; do echo line $i; i=$((i+1)); done; printf '%0300d needle\\n' 0; echo ERROR: no such table >&2; exit 3";

test("the log of a failed step has 25 lines at 1280x800, keeps its place when wrapped, and fills the window", async ({
  page,
  url,
}) => {
  await page.setViewportSize({ width: 1280, height: 800 });
  const retry = { maxAttempts: 2, initialBackoffMs: 100, backoffMultiplier: 1, maxBackoffMs: 100 };
  const runId = await startRun(url, "log-room", [
    { stepId: "load", type: "COMMAND", inputs: { argv: ["sh", "-c", FAILS_TWICE] }, retry },
  ]);
  await page.goto(`${url}/runs/${runId}`);
  await expect(status(page)).toHaveText("Failed, waiting");
  await page.keyboard.press("l");
  const log = page.getByRole("region", { name: "Log" });
  const current = log.locator("[aria-current]");
  await expect(current).toContainText("no such table");
  // The lines that are wholly inside the pane and the window.
  const inSight = (): Promise<number> =>
    log.evaluate((pane) => {
      const box = pane.getBoundingClientRect();
      return [...pane.querySelectorAll("[data-line]")].filter((line) => {
        const { top, bottom } = line.getBoundingClientRect();
        return top >= Math.max(0, box.top) && bottom <= Math.min(innerHeight, box.bottom);
      }).length;
    });
  await expect.poll(inSight).toBeGreaterThanOrEqual(25);
  await expect(page.getByTestId("step-panel").getByRole("button", { name: "Retry step…" })).toBeInViewport();
  await expect(page.getByTestId("step-panel").getByRole("button", { name: "Skip step…" })).toHaveCount(0);

  await page.keyboard.press("w");
  await expect(page.getByRole("button", { name: "Wrap" })).toHaveAttribute("aria-pressed", "true");
  await expect(current).toBeInViewport({ ratio: 1 });
  await page.keyboard.press("w");
  await expect(current).toBeInViewport({ ratio: 1 });

  // The tries are apart, and a match far to the right comes into sight.
  await page.keyboard.press("/");
  await page.keyboard.type("needle");
  await expect(current.locator("mark")).toBeInViewport({ ratio: 1 });
  await page.keyboard.press("Escape");
  await page.keyboard.press("Escape");
  await expect(page.getByTestId("step-panel")).toBeVisible();
  await page.keyboard.press("Home");
  await page.goto(`${url}/runs/${runId}?step=load&line=126`);
  await expect(log.getByText(/^Try 2 of 2, started/)).toBeVisible();

  await page.getByRole("button", { name: "Only errors" }).click();
  await expect(log.getByRole("button", { name: /^\d+ lines$/ }).first()).toBeVisible();

  await page.getByRole("link", { name: "Fill the window" }).click();
  await expect(page).toHaveURL(/full=yes/);
  expect((await page.getByTestId("step-panel").boundingBox())?.height).toBe(800);
  await page.keyboard.press("Escape");
  await expect(page).not.toHaveURL(/full=yes/);
  await expect(page).toHaveURL(/step=load/);
  await cancelRun(url, runId);
});
