// The words of a run about its end and its deadline.
import { cancelRun, expect, sleeps, startRun, test } from "./page";

const minutes = (n: number): string => new Date(Date.now() + n * 60_000).toISOString();

test("a run that missed its deadline is late on its page, in the list and in what needs attention", async ({
  page,
  url,
}) => {
  await page.setViewportSize({ width: 1280, height: 800 });
  const runId = await startRun(url, "late-month-books", sleeps(600_000, 1), "dev", "1.0", { within: "1s" });
  await page.goto(`${url}/runs/${runId}`);
  await expect(page.getByTestId("forecast")).toContainText(/late: due \d\d:\d\d, no forecast yet/);
  await page.goto(`${url}/runs?plan=late-month-books`);
  const mark = page.locator(`[data-run="${runId}"]`).getByText("late", { exact: true });
  await expect(mark).toBeVisible();
  // The mark and the badge stand on one line.
  const bottoms = await mark.evaluate((late) =>
    [late, late.previousElementSibling].map((part) => {
      const range = document.createRange();
      range.selectNodeContents(part?.lastChild ?? late);
      return range.getBoundingClientRect().bottom;
    }),
  );
  expect(Math.abs((bottoms[0] ?? 0) - (bottoms[1] ?? 9)), "the mark stands lower than the badge").toBeLessThan(1);
  const ends = await page
    .locator(`[data-run="${runId}"] code`)
    .evaluate((id) => [id.getBoundingClientRect().right, id.closest("td")?.getBoundingClientRect().right ?? 0]);
  expect(ends[0], "the id of the run is cut").toBeLessThanOrEqual(ends[1] ?? 0);
  await page.goto(url);
  await expect(page.getByRole("listitem").filter({ hasText: "late-month-books" })).toContainText("missed its deadline");
  await cancelRun(url, runId);
});

test("a run whose forecast lies behind its deadline will probably be late", async ({ page, url }) => {
  const runId = await startRun(url, "due-books", sleeps(600_000, 1), "dev", "1.0", { within: "2h" });
  await page.route("**/graphql", async (route) => {
    if (!route.request().postData()?.includes("RunForecast")) return route.fallback();
    const response = await route.fetch();
    const body = (await response.json()) as { data: { run: Record<string, unknown> } };
    const forecast = {
      low: minutes(40),
      expectedEnd: minutes(45),
      high: minutes(60),
      runs: 12,
      basis: "PLAN_RUNS",
    };
    Object.assign(body.data.run, { forecast, forecastGap: null, deadline: minutes(30) });
    await route.fulfill({ response, json: body });
  });
  await page.goto(`${url}/runs/${runId}`);
  await expect(page.getByTestId("forecast")).toContainText(/ends about .*, due .*\d\d:\d\d, will probably be late/);
  await cancelRun(url, runId);
});
