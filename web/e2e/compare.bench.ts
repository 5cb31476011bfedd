import type { Page } from "@playwright/test";
import { report } from "./figure";
import { layered, quantile } from "./large";
import { cancelRun, expect, startRun, status, test } from "./page";

const GATE_MS = 600_000;
const REPEATS = 5;

/** Leads the open page to the address, as a link does, and returns how long it takes until the table has its rows. */
function compared(page: Page, address: string, rows: number): Promise<number> {
  return page.evaluate(
    ([address, rows]) =>
      new Promise<number>((resolve) => {
        const began = performance.now();
        const look = (): void => {
          const found = document.querySelectorAll("main table tbody tr").length;
          if (location.href.endsWith(address) && found === rows) resolve(performance.now() - began);
          else requestAnimationFrame(look);
        };
        history.pushState({}, "", address);
        dispatchEvent(new PopStateEvent("popstate"));
        requestAnimationFrame(look);
      }),
    [address, rows] as const,
  );
}

test("ui-compare", async ({ page, url }) => {
  const pair = async (steps: number): Promise<string> => {
    const plan = layered(steps, Math.max(5, steps / 20), 1_000, GATE_MS);
    const [a, b] = [await startRun(url, `bench-${steps}`, plan), await startRun(url, `bench-${steps}`, plan)];
    for (const runId of [a, b]) {
      await page.goto(`${url}/runs/${runId}`);
      // A run that has not begun has no steps.
      await expect(status(page)).toHaveText("Running");
      await cancelRun(url, runId);
    }
    return `/compare?a=${a}&b=${b}&all=yes`;
  };
  const [few, many] = [await pair(5), await pair(3_000)];
  await page.goto(`${url}/plans`);
  await expect(page.getByRole("main")).toBeVisible();
  const times = { few: [] as number[], many: [] as number[] };
  for (let i = 0; i < REPEATS; i++) {
    times.few.push(await compared(page, few, 5));
    times.many.push(await compared(page, many, 500));
  }
  report("ui-compare", quantile(times.many, 0.5), quantile(times.few, 0.5));
});
