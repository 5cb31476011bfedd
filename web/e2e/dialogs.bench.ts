import { openDialogs } from "./dialogs";
import { report } from "./figure";
import { quantile } from "./large";
import { cancelRun, expect, sleeps, startRun, status, test } from "./page";

const TIMES = 20;

for (const { name, of } of [
  { name: "ui-dialog", of: "opened" },
  { name: "ui-preview", of: "previewed" },
] as const) {
  test(name, async ({ page, url }) => {
    const runId = await startRun(url, "bench-dialogs", sleeps(600_000, 1));
    await page.goto(`${url}/runs/${runId}`);
    await expect(status(page)).toHaveText("Running");
    await openDialogs(page, 2);
    const times = (await openDialogs(page, TIMES))[of];
    report(name, quantile(times, 0.95), Math.min(...times));
    await cancelRun(url, runId);
  });
}
