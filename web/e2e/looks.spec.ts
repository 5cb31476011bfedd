import { mkdirSync } from "node:fs";
import AxeBuilder from "@axe-core/playwright";
import type { Page } from "@playwright/test";
import { become, expect, sleeps, startRun, status, sync, test } from "./page";

const OUT = new URL("out/", import.meta.url).pathname;
const FAILING = [
  ...sleeps(100, 2),
  { stepId: "stg_orders", type: "COMMAND" as const, dependsOn: ["sleep_2"], inputs: { argv: ["ls", "/no/such/file"] }, retry: { maxAttempts: 1, initialBackoffMs: 100, backoffMultiplier: 1, maxBackoffMs: 100 } },
  { stepId: "orders", type: "NOOP" as const, dependsOn: ["stg_orders"], inputs: {} },
];

test.beforeAll(() => {
  mkdirSync(OUT, { recursive: true });
});

/** Keeps a picture of the page; axe finds nothing, and it does not scroll sideways. */
async function looksRight(page: Page, name: string): Promise<void> {
  await page.screenshot({ path: `${OUT}${name}.png` });
  const { violations } = await new AxeBuilder({ page }).withTags(["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]).analyze();
  expect(violations.map((violation) => `${name}: ${violation.id}: ${violation.nodes[0]?.html} ${violation.nodes[0]?.failureSummary}`)).toEqual([]);
  const sideways = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  expect(sideways, `${name} scrolls sideways`).toBe(0);
}

for (const theme of ["light", "dark"] as const) {
  test(`pages read well: ${theme}`, async ({ page, url }) => {
    const runId = await startRun(url, "e2e-looks", FAILING);
    await page.emulateMedia({ colorScheme: theme, reducedMotion: "reduce" });
    const pages = {
      runs: "/runs",
      run: `/runs/${runId}`,
      step: `/runs/${runId}?step=stg_orders`,
      steps: `/runs/${runId}?view=steps`,
      events: `/runs/${runId}?view=events`,
      details: `/runs/${runId}?view=details`,
      start: "/start",
      none: "/runs/01JNOSUCHRUN0000000000000",
    };
    for (const [name, path] of Object.entries(pages)) {
      for (const width of [1440, 360]) {
        await page.setViewportSize({ width, height: width === 360 ? 740 : 900 });
        await page.goto(url + path);
        if (path.startsWith("/runs") && name !== "none") await expect(sync(page).first()).toContainText("Live");
        if (path.includes(runId)) await expect(status(page)).toHaveText("Awaiting operator");
        await page.waitForTimeout(400);
        await looksRight(page, `${name}-${width}-${theme}`);
      }
    }
  });
}

// What one who may see everything sees, and what an engineer sees of what is not theirs.
const OPERATORS = ["inbox", "queue", "dlq", "audit", "admin/tokens", "admin/policy", "admin/quotas", "admin/service", "health", "no/such/page"];
for (const { theme, principal, widths } of [
  { theme: "light", principal: "dev-admin", widths: [320] },
  { theme: "dark", principal: "dev-admin", widths: [1440] },
  { theme: "light", principal: "dev-engineer", widths: [1440] },
] as const) {
  test(`33 38 pages of operators read well: ${theme}, ${principal}`, async ({ page, url }) => {
    await page.emulateMedia({ colorScheme: theme, reducedMotion: "reduce" });
    await page.goto(`${url}/runs`);
    await become(page, principal);
    for (const path of OPERATORS) {
      for (const width of widths) {
        await page.setViewportSize({ width, height: 900 });
        await page.goto(`${url}/${path}`);
        await expect(page.locator("main").getByRole("status", { name: /^Loading/ })).toHaveCount(0);
        await expect(page.locator("main")).not.toBeEmpty();
        await looksRight(page, `${path.replaceAll("/", "-")}-${width}-${theme}-${principal}`);
      }
    }
  });
}

test("a large graph stays whole", async ({ page, url }) => {
  const steps = Array.from({ length: 500 }, (_, i) => ({
    stepId: `model_${i}`,
    type: "NOOP" as const,
    dependsOn: i < 60 ? [] : [`model_${i - 60}`, ...(i % 3 === 0 ? [`model_${i - 51}`] : [])],
    inputs: {},
  }));
  const runId = await startRun(url, "e2e-large", steps);
  await page.goto(`${url}/runs/${runId}`);
  await expect(page.getByText("of 500 steps")).toBeVisible();
  // A run that moves faster than answers come leaves its actions usable.
  await expect(page.getByRole("button", { name: "Pause…" })).not.toHaveAttribute("aria-disabled", "true");
  await page.getByRole("button", { name: "Fit" }).click();
  await expect(page.getByRole("group", { name: /graph/i }).getByRole("button")).toHaveCount(500);
  await page.screenshot({ path: `${OUT}large-1440.png` });
});
