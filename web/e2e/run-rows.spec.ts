// A row that does not change is not drawn again when others do.
import type { Page } from "@playwright/test";
import { cancelRun, expect, type PlanStep, sleeps, startRun, sync, test } from "./page";

/** How often the function with this word in its source ran since it was counted last: the browser's own count. */
async function counter(page: Page, word: RegExp): Promise<() => Promise<number>> {
  const devtools = await page.context().newCDPSession(page);
  await devtools.send("Profiler.enable");
  await devtools.send("Profiler.startPreciseCoverage", { callCount: true, detailed: true });
  return async () => {
    const { result } = await devtools.send("Profiler.takePreciseCoverage");
    let calls = 0;
    for (const { url, functions } of result.filter(({ url: of }) => of.includes("/assets/"))) {
      const source = await (await page.request.get(url)).text();
      const at = source.search(word);
      const around = functions
        .flatMap(({ ranges }) => ranges[0] ?? [])
        .filter(({ startOffset, endOffset }) => at >= startOffset && at < endOffset);
      // The innermost.
      calls += around.toSorted((a, b) => b.startOffset - a.startOffset)[0]?.count ?? 0;
    }
    return calls;
  };
}

test("14 a row whose step stands still is not drawn again while others move, in the table and the timeline", async ({
  page,
  url,
}) => {
  const still = Array.from({ length: 20 }, (_, i): PlanStep => ({
    stepId: `after_${i}`,
    type: "NOOP",
    dependsOn: ["gate"],
    inputs: {},
  }));
  const moving = sleeps(500, 100);
  const runId = await startRun(url, "rows-still", [
    { stepId: "gate", type: "MANUAL", dependsOn: [], inputs: { instructions: "Look." } },
    ...still,
    ...moving,
  ]);
  for (const [view, row] of [
    ["steps&sort=plan", /"data-column":.waited/],
    ["timeline&order=plan", /"data-critical":/],
  ] as const) {
    await page.goto(`${url}/runs/${runId}?view=${view}`);
    await expect(sync(page)).toContainText("Live");
    await expect(page.getByRole("table").getByRole("button", { name: /^after_9, / })).toBeVisible();
    const count = await counter(page, row);
    const seq = async (): Promise<number> => Number(/seq (\d+)/.exec((await sync(page).textContent()) ?? "")?.[1]);
    const from = await seq();
    await count();
    await expect.poll(seq, { timeout: 60_000 }).toBeGreaterThan(from + 20);
    const rows = await count();
    expect(rows, view).toBeGreaterThan(0);
    // What goes on is drawn each second and when it moves; the rows that stand still were twenty for each event.
    expect(rows, view).toBeLessThan(10 * ((await seq()) - from));
  }
  await cancelRun(url, runId);
});
