import type { Page } from "@playwright/test";
import { cancelRun, expect, type PlanStep, startRun, sync, test } from "./page";

/** Layers of `wide` steps that sleep, each behind two of the layer before: the shape of a large dbt project. */
function layers(count: number, wide: number, ms: number): PlanStep[] {
  return Array.from({ length: count }, (_, i) => {
    const near = i - wide + (((i * 7) % 5) - 2);
    const far = i - wide - ((i * 13) % wide);
    const before = i < wide ? [] : [...new Set(i % 3 === 0 ? [near, far] : [near])].filter((n) => n >= 0 && n < i);
    return { stepId: `model_${i}`, type: "SLEEP", dependsOn: before.map((n) => `model_${n}`), inputs: { ms: ms + ((i * 37) % ms) } };
  });
}

let large: Promise<string> | null = null;
/** One run of 5,000 steps for the tests of this file; it moves all the while. */
function largeRun(url: string): Promise<string> {
  large ??= startRun(url, "e2e-5000", layers(5_000, 250, 1_000));
  return large;
}
test.afterAll(async ({ url }) => {
  if (large) await cancelRun(url, await large);
});

function mosaic(page: Page) {
  return page.getByRole("region", { name: "Mosaic of the steps" });
}

async function painted(page: Page): Promise<number> {
  return Number(await mosaic(page).locator("canvas[data-painted]").getAttribute("data-painted"));
}

test("13 5,000 steps are one screen of cells that change in place", async ({ page, url }) => {
  const runId = await largeRun(url);
  await page.goto(`${url}/runs/${runId}`);
  await expect(sync(page)).toContainText("Live");
  const pane = mosaic(page).locator("[data-cells]");
  await expect(pane).toHaveAttribute("data-cells", "5000");
  await expect(pane).toHaveAccessibleName(/5,000 steps: 0 failed, 0 waiting, [\d,]+ running, [\d,]+ pending, [\d,]+ ok/);
  const box = await pane.boundingBox();
  expect(box?.height).toBeLessThan(900);
  expect(await pane.evaluate((element) => element.scrollHeight - element.clientHeight)).toBe(0);
  // A run that moves faster than answers come leaves its actions usable.
  await expect(page.getByRole("button", { name: "Pause…" })).not.toHaveAttribute("aria-disabled", "true");
  // Only what changes is drawn again.
  const before = await painted(page);
  expect(before).toBeLessThan(2 * 5_000);
  await expect.poll(() => painted(page)).toBeGreaterThan(before + 20);
  expect(await painted(page)).toBeLessThan(before + 1_000);
  expect(await page.locator("*").count()).toBeLessThan(1_500);
});

test("13 the mosaic is walked by keys, and leads to the step and to the graph around it", async ({ page, url }) => {
  const runId = await largeRun(url);
  await page.goto(`${url}/runs/${runId}`);
  const cell = mosaic(page).locator("[data-cells] button");
  await cell.focus();
  const first = await cell.getAttribute("aria-label");
  await page.keyboard.press("ArrowRight");
  await expect(cell).not.toHaveAttribute("aria-label", first ?? "");
  await expect(cell).toBeFocused();
  await expect(cell).toHaveAccessibleName(/^model_\d+, (pending|running|succeeded)/);
  const name = /^model_\d+/.exec((await cell.getAttribute("aria-label")) ?? "")?.[0] ?? "";
  await page.keyboard.press("Enter");
  await expect(page.getByTestId("step-panel")).toContainText(name);
  await page.keyboard.press("Escape");
  await cell.focus();
  await page.keyboard.press("Space");
  await expect(page).toHaveURL(new RegExp(`focus=${name}`));
  const near = page.getByRole("group", { name: /graph/i }).getByRole("button");
  await expect(near.filter({ hasText: name }).first()).toBeVisible();
  const two = await near.count();
  await page.keyboard.press("+");
  await expect(page).toHaveURL(/hops=3/);
  await expect.poll(() => near.count()).toBeGreaterThan(two);
  expect(await near.count()).toBeLessThanOrEqual(150);
});
