// What a failed run says of its cause.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { violations } from "./look";
import { cancelRun, expect, type PlanStep, startRun, status, test } from "./page";

const ONCE = { maxAttempts: 1, initialBackoffMs: 100, backoffMultiplier: 1, maxBackoffMs: 100 };
// Marts without the staging that they read: the first fails, those behind it are skipped.
function marts(folder: string): PlanStep[] {
  return [
    {
      stepId: "marts",
      type: "DBT_RUN",
      inputs: { projectDir: "examples/shop", select: "marts", vars: { shop_dir: folder } },
      retry: ONCE,
    },
  ];
}

const FAILS: PlanStep[] = [{ stepId: "load", type: "COMMAND", inputs: { argv: ["ls", "/no/such/file"] }, retry: ONCE }];

test("13 34 39 the cause counts dbt's models by one request, opens their SQL, and moves nothing when they come", async ({
  page,
  url,
}) => {
  const folder = mkdtempSync(join(tmpdir(), "dvt-e2e-shop-"));
  const [runId, plain] = [await startRun(url, "cause-dbt", marts(folder)), await startRun(url, "cause-plain", FAILS)];
  let asked = 0;
  let answer: (() => void) | undefined;
  const held = new Promise<void>((resolve) => {
    answer = resolve;
  });
  await page.route("**/graphql", async (route) => {
    if (route.request().postData()?.includes("CauseNodes")) {
      asked += 1;
      await held;
    }
    await route.continue();
  });
  const cause = page.getByTestId("root-cause");
  await page.goto(`${url}/runs/${plain}`);
  await expect(cause).not.toContainText("Also failed");
  await expect(cause).toContainText("Last success: none before this run");
  expect(asked).toBe(0);

  await page.setViewportSize({ width: 360, height: 740 });
  await page.goto(`${url}/runs/${runId}`);
  await expect(status(page)).toHaveText("Failed, waiting", { timeout: 240_000 });
  await expect(cause).toContainText("Last success: none before this run");
  await expect.poll(() => asked).toBe(1);
  await expect(cause.getByRole("link", { name: /^Log line/ })).toBeVisible();
  const before = await cause.boundingBox();
  answer?.();
  const models = cause.getByRole("link", { name: "1 dbt model failed, 2 skipped" });
  await expect(models).toBeVisible();
  expect(await cause.boundingBox()).toEqual(before);

  await page.setViewportSize({ width: 1440, height: 900 });
  await models.click();
  const panel = page.getByTestId("step-panel");
  await expect(panel.locator("[data-node]")).toHaveCount(1);
  await expect(panel.locator('[data-node="model.shop.orders"]')).toContainText("stg_orders does not exist");
  await expect(panel.locator("details")).not.toHaveAttribute("open");
  await cause.getByRole("link", { name: "SQL" }).click();
  await expect(panel.locator("details")).toHaveAttribute("open");
  await expect(panel.getByText("left join payments as p")).toBeInViewport();
  await page.reload();
  await expect(panel.getByText("left join payments as p")).toBeVisible();
  expect(await violations(page)).toEqual([]);
  await panel.getByRole("button", { name: "All", exact: true }).click();
  await expect(panel.locator("[data-node]")).toHaveCount(4);
  // Once for each time the page was opened.
  expect(asked).toBe(2);
  await Promise.all([cancelRun(url, runId), cancelRun(url, plain)]);
  rmSync(folder, { recursive: true });
});
