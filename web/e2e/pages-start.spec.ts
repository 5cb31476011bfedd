import type { Page } from "@playwright/test";
import { become, expect, sleeps, startRun, status, test } from "./page";

function plan(planId: string, steps: object[], environmentId = "dev"): string {
  return JSON.stringify({
    schemaVersion: "v1.2",
    metadata: {
      planId,
      planVersion: "1.0",
      createdAt: "2026-11-21T00:00:00Z",
      createdBy: "e2e",
      schemaVersion: "v1.2",
      failurePolicy: { retryWindowSeconds: 600, cancelRunning: false },
    },
    scope: { tenantId: "acme", projectId: "shop", environmentId, repoSha: "0".repeat(40) },
    steps,
  });
}
const NAP = { stepId: "nap", type: "SLEEP", inputs: { ms: 100 }, timeout: "1m" };

function check(page: Page) {
  return page.getByTestId("start-check");
}

test("25 one form is one run: a double click, a reload and the way back start no second one", async ({ page, url }) => {
  const planId = `e2e-once-${Date.now()}`;
  await page.goto(`${url}/start`);
  await page.getByLabel("Plan (YAML or JSON)").fill(plan(planId, [NAP]));
  await expect(page.locator("main").getByLabel("Project", { exact: true })).toHaveValue("shop");
  await expect(check(page)).toHaveAttribute("data-outcome", "APPLY");
  await expect(check(page)).toContainText("1 step would start at once, nap first.");
  await page.reload();
  await expect(page.getByLabel("Plan (YAML or JSON)")).toHaveValue(plan(planId, [NAP]));
  await page.locator("main").getByRole("button", { name: "Start run" }).dblclick();
  await expect(status(page)).toHaveText(/Approved|Pending|Running|Completed/);
  const run = page.url();
  await page.goBack();
  await expect(
    page.locator("main").getByRole("status").filter({ hasText: "This form has already started run" }),
  ).toBeVisible();
  await page.getByRole("link", { name: "Open it" }).click();
  await expect(page).toHaveURL(run);
  await page.goto(`${url}/runs?plan=${planId}`);
  await expect(page.locator("tr[data-run]")).toHaveCount(1);
  await page.goto(`${url}/start`);
  await expect(page.getByLabel("Plan (YAML or JSON)")).toHaveValue("");
});

test("what is wrong is said all at once, in place, before and after it is sent", async ({ page, url }) => {
  await page.goto(`${url}/start`);
  await page.getByLabel("Plan (YAML or JSON)").fill("{");
  await expect(page.locator("main").getByRole("alert")).toContainText("Line ");
  const broken = plan("e2e-broken-plan", [
    { ...NAP, dependsOn: ["none"] },
    { stepId: "b", type: "NO_SUCH", inputs: {} },
  ]);
  await page.getByLabel("Plan (YAML or JSON)").fill(broken);
  await expect(page.locator("main").getByRole("alert").getByRole("listitem").nth(1)).toBeVisible();
  await page.locator("main").getByRole("button", { name: "Start run" }).click();
  await expect(page.locator("main").getByRole("alert")).toContainText("PLAN_INVALID");
  const text = page.getByLabel("Plan (YAML or JSON)");
  await expect(text).toBeFocused();
  await expect(text).toHaveAttribute("aria-invalid", "true");
  const selected = (): Promise<string> =>
    text.evaluate((area: HTMLTextAreaElement) => area.value.slice(area.selectionStart, area.selectionEnd));
  await expect.poll(selected).not.toBe("");
  await page.locator("main").getByRole("alert").getByRole("button", { name: "steps[1].type" }).click();
  await expect.poll(selected).toBe('"type":"NO_SUCH"');
});

test("a refusal that says when to come back is counted down on the button", async ({ page, url }) => {
  let refusals = 1;
  await page.route("**/graphql", async (route) => {
    if (refusals === 0 || !(route.request().postData() ?? "").includes("mutation StartRun")) return route.continue();
    refusals -= 1;
    const extensions = { code: "STORE_OVERLOADED", retryAfterMs: 30_000 };
    return route.fulfill({ json: { errors: [{ message: "The store has too much to do.", extensions }], data: null } });
  });
  await page.clock.install();
  await page.goto(`${url}/start`);
  await page.getByLabel("Plan (YAML or JSON)").fill(plan("e2e-later", [NAP]));
  await expect(check(page)).toHaveAttribute("data-outcome", "APPLY");
  await page.locator("main").getByRole("button", { name: "Start run" }).click();
  await expect(page.locator("main").getByRole("alert")).toContainText("STORE_OVERLOADED");
  await expect(page.locator("main").getByRole("button", { name: /^Wait (30|[12]?\d) s$/ })).toHaveAttribute(
    "aria-disabled",
    "true",
  );
  await page.clock.fastForward(30_000);
  await page.locator("main").getByRole("button", { name: "Start run" }).click();
  await expect(status(page)).toHaveText(/Approved|Pending|Running|Completed/);
});

test("a plan comes from a file, production is a band, and one who may not is told why", async ({ page, url }) => {
  await page.goto(`${url}/start`);
  await page.getByLabel("From a file:").setInputFiles({
    name: "plan.json",
    mimeType: "application/json",
    buffer: Buffer.from(plan("e2e-file", [NAP], "prod")),
  });
  await expect(page.getByText("PROD: this run acts on production.")).toBeVisible();
  await become(page, "dev-viewer");
  await expect(page.getByLabel("Plan (YAML or JSON)")).toHaveValue(/e2e-file/);
  await expect(check(page)).toHaveAttribute("data-outcome", "REFUSED");
  const start = page.locator("main").getByRole("button", { name: "Start run" });
  await expect(start).toHaveAttribute("aria-disabled", "true");
  await expect(start).toHaveAccessibleDescription(/FORBIDDEN/);
});

test("a run is started again from its plan, by keys", async ({ page, url }) => {
  const runId = await startRun(url, "e2e-again", sleeps(50, 2));
  await page.goto(`${url}/runs/${runId}`);
  await expect(status(page)).toHaveText("Completed", { timeout: 30_000 });
  await page.goto(`${url}/start?from=${runId}`);
  await expect(page.getByLabel("Run id")).toHaveValue(runId);
  await expect(check(page)).toHaveAttribute("data-outcome", "APPLY");
  await page.getByLabel("Run id").press("Control+Enter");
  await expect(page).toHaveURL(/\/runs\/[^?]+/);
  expect(page.url()).not.toContain(runId);
  await expect(page.locator("main")).toContainText("e2e-again");
});
