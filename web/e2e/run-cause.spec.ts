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

// Each of these lines is wider than the card at 1280 px.
const WIDE = ["COPY raw.orders", "ERROR: relation raw.orders does not exist", "rolled back"].map(
  (text) => `${text} ${"of the load of the last night ".repeat(6)}`,
);

test("the cause, the graph and the time machine share one window of 1280 by 800, and the log has 25 lines beside it", async ({
  page,
  url,
}) => {
  await page.setViewportSize({ width: 1280, height: 800 });
  const say = [...WIDE, ...Array.from({ length: 40 }, (_, i) => `line ${i + 4}`)];
  const script = say.map((text) => `echo '${text}'`).join("; ");
  const before = ["orders", "customers", "products"].map((name): PlanStep => ({
    stepId: `extract_${name}`,
    type: "NOOP",
    inputs: {},
  }));
  const after = ["stg", "fct", "publish"].map((name, i, all): PlanStep => ({
    stepId: name,
    type: "NOOP",
    dependsOn: [i === 0 ? "load" : (all[i - 1] ?? "load")],
    inputs: {},
  }));
  const load: PlanStep = {
    stepId: "load",
    type: "COMMAND",
    dependsOn: before.map(({ stepId }) => stepId),
    inputs: { argv: ["sh", "-c", `${script}; exit 1`] },
    retry: ONCE,
  };
  const runId = await startRun(url, "cause-wide", [...before, load, ...after]);
  await page.goto(`${url}/runs/${runId}`);
  await expect(status(page)).toHaveText("Failed, waiting");
  const cause = page.getByTestId("root-cause");
  await expect(cause.locator("[aria-current]")).toContainText("ERROR: relation");
  const graph = page.locator('[data-step="load"]').first();
  for (const [name, part] of [
    ["cause", cause],
    ["button", page.getByRole("button", { name: "Retry step…" }).first()],
    ["failed step", graph],
    ["time machine", page.getByRole("group", { name: "Time machine" })],
  ] as const)
    await expect(part, name).toBeInViewport({ ratio: 1 });
  await cause.getByRole("link", { name: /^Log line/ }).click();
  const panel = page.getByTestId("step-panel");
  await expect(panel).toContainText("line 43");
  const lines = await panel.locator('[data-line="10"]').evaluate((line) => {
    const log = line.closest('[role="region"]');
    return log && (innerHeight - log.getBoundingClientRect().top) / line.getBoundingClientRect().height;
  });
  expect(lines).toBeGreaterThanOrEqual(25);
  await cancelRun(url, runId);
});
