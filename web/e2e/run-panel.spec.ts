// An open step, and the plan that it comes from.
import { changePolicy, signal } from "./api";
import { violations } from "./look";
import { limitProject } from "./policy";
import { become, cancelRun, expect, type PlanStep, sleeps, startRun, status, test } from "./page";

const ONCE = { maxAttempts: 1, initialBackoffMs: 100, backoffMultiplier: 1, maxBackoffMs: 100 };
const PRINTS = "echo begin; echo ERROR one; for i in $(seq 1 300); do echo line $i; done; echo an error too; exit 3";
const FAILS: PlanStep[] = [
  {
    stepId: "load",
    type: "COMMAND",
    inputs: { argv: ["sh", "-c", PRINTS], env: { MODE: "full", API_TOKEN: "hunter2" } },
    secretRefs: [{ provider: "file", key: "warehouse/password" }],
    retry: ONCE,
  },
];

test("34 39 an open step has a width of its own, its log a list of errors, links to lines and its bare text, and its inputs no secret", async ({
  page,
  url,
  context,
}) => {
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  const runId = await startRun(url, "panel", FAILS);
  await page.goto(`${url}/runs/${runId}?step=load`);
  await expect(status(page)).toHaveText("Failed, waiting");
  const handle = page.getByRole("separator", { name: "Width of the step" });
  await expect(handle).toHaveAttribute("aria-valuenow", "40");
  await handle.focus();
  await page.keyboard.press("ArrowLeft");
  await expect(handle).toHaveAttribute("aria-valuenow", "42");
  const box = await handle.boundingBox();
  await page.mouse.move((box?.x ?? 0) + 12, (box?.y ?? 0) + 40);
  await page.mouse.down();
  await page.mouse.move((box?.x ?? 0) - 200, (box?.y ?? 0) + 40);
  await page.mouse.up();
  await expect.poll(async () => Number(await handle.getAttribute("aria-valuenow"))).toBeGreaterThan(50);
  const kept = await handle.getAttribute("aria-valuenow");
  await page.reload();
  await expect(handle).toHaveAttribute("aria-valuenow", kept ?? "");

  await page.getByRole("button", { name: "List of errors" }).click();
  const errors = page.getByRole("list", { name: "Lines that mention an error" });
  await expect(errors.getByRole("button", { name: "2 ERROR one" })).toBeVisible();
  await errors.getByRole("button", { name: /an error too/ }).click();
  await expect(page).toHaveURL(/line=303/);
  await page.getByRole("button", { name: "Copy link to line 303" }).click();
  await expect
    .poll(() => page.evaluate(() => navigator.clipboard.readText()))
    .toMatch(new RegExp(`/runs/${runId}\\?.*line=303`));
  const tab = page.waitForEvent("popup");
  await page.getByRole("link", { name: "Raw" }).click();
  await expect((await tab).locator("body")).toContainText("an error too");
  // The address can be sent on.
  expect((await tab).url()).toMatch(new RegExp(`/logs/${runId}/load/1$`));
  expect(await (await tab).evaluate(() => document.contentType)).toBe("text/plain");
  await (await tab).close();

  await page.getByRole("button", { name: "Inputs", exact: true }).click();
  const panel = page.getByTestId("step-panel");
  await expect(panel.getByLabel("Inputs")).toContainText('"MODE": "full"');
  await expect(panel).not.toContainText("hunter2");
  await expect(panel.getByRole("listitem")).toContainText(
    "file:warehouse/password as the file password: read from file",
  );
  expect(await violations(page)).toEqual([]);
});

test("39 a plan is compared with the one before it, in the run and where it is approved, and a step with its median", async ({
  page,
  url,
}) => {
  const plan = `panel-diff-${Date.now()}`;
  const first = await startRun(url, plan, sleeps(100, 2), "gated");
  await page.goto(`${url}/runs/${first}?view=details`);
  await expect(status(page)).toHaveText("Completed");
  await expect(page.getByText("no earlier run of this plan")).toBeVisible();
  const restore = await changePolicy(url, (grants) => ({
    grants,
    approvals: [{ projectId: "shop", environmentId: "gated", required: 1 }],
  }));
  try {
    const second = await startRun(
      url,
      plan,
      [...sleeps(4_000, 1), { stepId: "report", type: "NOOP", inputs: {} }],
      "gated",
    );
    await page.goto(`${url}/runs/${second}?view=details`);
    const diff = page.getByTestId("plan-diff");
    await expect(diff).toContainText("1 step added, 1 removed, 1 changed");
    await expect(diff).toContainText("inputs.ms: 100 → 4000");
    await page.goto(`${url}/inbox`);
    await become(page, "dev-planner");
    const words = "2 steps · compared with 1.0: 1 step added, 1 removed, 1 changed";
    const entry = page.locator(`li[data-run="${second}"]`);
    await expect(entry.getByTestId("plan-change")).toContainText(words);
    await entry.getByRole("button", { name: /^Approve/ }).click();
    const change = page.getByRole("dialog").getByTestId("plan-change");
    await expect(change).toContainText(words);
    await change.getByRole("link").click();
    await expect(page).toHaveURL(new RegExp(`${second}.*view=details`));
  } finally {
    await restore();
  }
  // The page is there before the run has any steps to compare.
  await limitProject(url, { maxActive: 0 });
  const third = await startRun(url, plan, sleeps(4_000, 1), "gated");
  await page.goto(`${url}/runs/${third}?view=steps&sort=median`);
  await expect(status(page)).toHaveText("Queued");
  await limitProject(url, null);
  await expect(status(page)).toHaveText("Completed");
  await expect(page.getByRole("row").filter({ hasText: "sleep_1" })).toContainText(/\+\d[\d.]* s slower/);
});

test("39 a line is of the log in which it was chosen: a retry forgets it, a link to its attempt keeps it", async ({
  page,
  url,
}) => {
  const runId = await startRun(url, "panel-line", [
    { stepId: "load", type: "COMMAND", inputs: { argv: ["sh", "-c", "echo one; echo two; exit 3"] }, retry: ONCE },
  ]);
  const attempt = (words: string) =>
    page.getByRole("group", { name: "Attempts" }).getByRole("button", { name: new RegExp(words) });
  await page.goto(`${url}/runs/${runId}?step=load`);
  await expect(status(page)).toHaveText("Failed, waiting");
  await page.getByRole("region", { name: "Log" }).getByRole("button", { name: "2", exact: true }).click();
  await expect(page).toHaveURL(/line=2/);
  await signal(url, "dev-admin", runId, { retryStep: { stepId: "load", reason: "again" } });
  await expect(attempt("#1")).toHaveAttribute("aria-pressed", "true");
  await expect(page).not.toHaveURL(/line=/);
  await page.goto(`${url}/runs/${runId}?step=load&attempt=1&line=2`);
  await expect(status(page)).toHaveText("Failed, waiting");
  await signal(url, "dev-admin", runId, { retryStep: { stepId: "load", reason: "once more" } });
  await expect(attempt("#2")).toBeVisible();
  await expect(page.locator('[data-line="2"]')).toHaveAttribute("aria-current", "true");
  await expect(page).toHaveURL(/line=2/);
});

test("steps stand as people count, and who waits for a person does not run", async ({ page, url }) => {
  const steps = ["l1", "l10", "l2"].map((stepId): PlanStep => ({
    stepId,
    type: "MANUAL",
    dependsOn: [],
    inputs: { instructions: "Look." },
  }));
  const runId = await startRun(url, "panel-order", [
    ...steps,
    { stepId: "nap", type: "SLEEP", dependsOn: [], inputs: { ms: 100_000 } },
  ]);
  await page.goto(`${url}/runs/${runId}?view=steps&sort=plan`);
  const facts = page.locator("main p").filter({ hasText: "of 4 steps" });
  await expect(facts).toContainText("1 running");
  await expect(facts).toContainText("3 waiting for a person");
  await expect(page.getByRole("group", { name: "Show steps" }).getByRole("button", { name: /^Running/ })).toHaveText(
    "Running 1",
  );
  const names = () => page.getByRole("table").getByRole("cell").locator("button[title]").allTextContents();
  await expect.poll(names).toEqual(["l1", "l2", "l10", "nap"]);
  await page.goto(`${url}/runs/${runId}?view=timeline&order=plan`);
  await expect.poll(names).toEqual(["l1", "l2", "l10", "nap"]);
  await page.goto(`${url}/runs/${runId}?view=graph`);
  const top = async (name: string): Promise<number> =>
    (
      await page
        .getByRole("button", { name: new RegExp(`^${name}, `) })
        .first()
        .boundingBox()
    )?.y ?? -1;
  expect(await top("l1")).toBeLessThan(await top("l2"));
  expect(await top("l2")).toBeLessThan(await top("l10"));
  await cancelRun(url, runId);
});
