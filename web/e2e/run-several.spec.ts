// One action on several steps of a run: a preview, a signal and a receipt for each.
import { receiptsOf, signal } from "./api";
import { violations } from "./look";
import { expect, type PlanStep, startRun, status, sync, test } from "./page";
import { openWire, updateOf, withUpdate } from "./wire";

const FAILING = 11;
const ONCE = { maxAttempts: 1, initialBackoffMs: 100, backoffMultiplier: 1, maxBackoffMs: 100 };

function plan(): PlanStep[] {
  const load = Array.from({ length: FAILING }, (_, i): PlanStep => ({
    stepId: `load_${String(i + 1).padStart(2, "0")}`,
    type: "COMMAND",
    inputs: { argv: ["sh", "-c", "sleep 2; exec ls /no/such/file"] },
    retry: ONCE,
  })); // all begin before the first failure closes the gate
  return [
    { stepId: "extract", type: "NOOP", inputs: {} },
    ...load,
    { stepId: "mart", type: "NOOP", dependsOn: ["load_01"], inputs: {} },
  ];
}

test("23 25 26 several steps are retried at once: a preview each, one reason, a receipt each, and who was quicker is told", async ({
  page,
  url,
}) => {
  const runId = await startRun(url, "several", plan());
  const wire = await openWire(page);
  await page.goto(`${url}/runs/${runId}?view=steps&sort=plan`);
  await expect(page.getByText(`${FAILING} failed`, { exact: true })).toBeVisible();
  const row = (name: string) =>
    page.getByRole("row").filter({ has: page.getByRole("button", { name: new RegExp(`^${name}, `) }) });
  await expect(row("load_03")).toBeVisible();
  // By keys: the first row, then all from it to the third.
  await page.keyboard.press("j");
  await page.keyboard.press("k");
  await page.keyboard.press("x");
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await page.keyboard.press("X");
  const bar = page.getByRole("region", { name: "Selected steps" });
  await expect(bar).toContainText("3 steps selected");
  await row("load_03").getByRole("checkbox").check();
  await bar.getByRole("button", { name: "Retry step…" }).click();
  const dialog = page.getByRole("dialog", { name: /^Retry 4 steps of several/ });
  const line = (step: string) => dialog.locator(`[data-step="${step}"]`);
  await expect(dialog.getByTestId("several")).toContainText("3 of 4 steps would take the signal");
  await expect(line("extract")).toContainText("STEP_NOT_FAILED");
  await dialog.getByLabel(/reason/).fill("the source is back");
  expect(await violations(page, "all", "dialog")).toEqual([]);

  // The page is told that it is fresh, and nothing of what another does to one of the steps.
  const seq = Number(/seq (\d+)/.exec((await sync(page).textContent()) ?? "")?.[1]);
  wire.meddle((frame) =>
    updateOf(frame) ? withUpdate(frame, { snapshot: null, delta: null, runSeq: seq, headSeq: seq }) : frame,
  );
  await signal(url, "dev-admin", runId, { retryStep: { stepId: "load_02", reason: "theirs" } });
  await expect.poll(async () => (await receiptsOf(url, runId))[0]?.application).toBe("APPLIED");
  await dialog.getByRole("button", { name: "Retry 3 steps" }).click();
  await expect(line("load_02")).toContainText("RUN_MOVED");
  await expect(dialog.getByTestId("moved")).toContainText("load_02");
  await expect(line("load_01")).toContainText("Accepted");
  await expect(line("load_03")).toContainText("Accepted");
  await dialog.getByRole("button", { name: "Review again" }).click();
  await expect(line("load_02")).toContainText("SUPERSEDED");
  await expect(dialog.getByRole("button", { name: /^Send/ })).toHaveCount(0);
  await dialog.getByRole("button", { name: "Close" }).click();
  const mine = (await receiptsOf(url, runId)).slice(1);
  expect(mine.map(({ type, reason }) => [type, reason])).toEqual(
    ["load_01", "load_03"].map(() => ["RETRY_STEP", "the source is back"]),
  );
  expect(new Set(mine.map(({ signalId }) => signalId)).size).toBe(2);
});

test("31 more than ten steps take their number, typed, and what waits is skipped before what it waits for", async ({
  page,
  url,
}) => {
  const runId = await startRun(url, "several-strong", plan());
  await page.goto(`${url}/runs/${runId}?view=steps&show=FAILED,PENDING`);
  await expect(status(page)).toHaveText("Failed, waiting");
  await expect(page.getByText(`${FAILING} failed`, { exact: true })).toBeVisible();
  await page.getByRole("checkbox", { name: "Select all steps shown" }).check();
  await page.getByRole("button", { name: "Skip step…" }).click();
  const dialog = page.getByRole("alertdialog", { name: /^Skip 12 steps/ });
  const send = dialog.getByRole("button", { name: "Skip 12 steps" });
  await expect(send).toBeDisabled();
  await dialog.getByLabel(/Type 12/).fill("12");
  await page.keyboard.press("Enter");
  await expect(dialog).toBeVisible();
  expect(await receiptsOf(url, runId)).toEqual([]);
  await send.click();
  await expect(dialog.getByTestId("several")).toContainText("12 of 12 steps sent");
  await dialog.getByRole("button", { name: "Close" }).click();
  await expect(status(page)).toHaveText("Completed");
  await expect
    .poll(async () => (await receiptsOf(url, runId)).map(({ application }) => application))
    .toEqual(Array(12).fill("APPLIED"));
});
