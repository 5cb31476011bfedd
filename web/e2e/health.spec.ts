// What a server has measured of itself, for those who may see it.
import type { Page } from "@playwright/test";
import { inject } from "./faults";
import { expectFits, violationsOfBoth } from "./look";
import { cancelRun, expect, signIn, sleeps, startRun, status, test } from "./page";

/** Opens the page as somebody; the server measures every second here. */
async function open(page: Page, url: string, principal: string): Promise<void> {
  await signIn(page.context(), principal);
  await page.goto(`${url}/health`);
  await expect(page.getByRole("region", { name: "Health" })).toBeVisible();
}

test("33 38 the charts of health show real samples, in words too, to an SRE", async ({ page, url }) => {
  // Somebody watches a run, so that there are frames.
  const other = await page.context().newPage();
  const runId = await startRun(url, "e2e-health", sleeps(300, 400));
  await other.goto(`${url}/runs/${runId}`);
  await expect(status(other)).toHaveText("Running");
  await open(page, url, "dev-sre");
  const chart = (name: string) => page.getByRole("figure", { name, exact: true });
  await expect(chart("Delay until viewers see a change")).toContainText(
    /Half of the changes within: (\d[\d.]* m?s|no change) now, peak \d[\d.]* m?s at \d\d:\d\d:\d\d/,
  );
  await expect(chart("Updates sent per second")).toContainText(/peak \d/);
  await expect(chart("Viewers")).toContainText(/Viewers: \d+ now/);
  await expect(chart("Answer times")).toContainText(/Temporal: \d[\d.]* m?s now/);
  await other.close();
  await cancelRun(url, runId);
  await expect(page.locator("figure canvas")).toHaveCount(4);
  await expect(
    page.getByText(/^Measured by the server .+ from \d\d:\d\d:\d\d UTC to \d\d:\d\d:\d\d UTC/),
  ).toBeVisible();
  await page.getByText("As a table").click();
  await expect(page.getByRole("region", { name: "This server's last hour" }).getByRole("row").nth(1)).toContainText(
    "Healthy",
  );
  expect.soft(await violationsOfBoth(page)).toEqual([]);
  for (const width of [320, 1440]) {
    await page.setViewportSize({ width, height: 900 });
    await expectFits(page, `health at ${width}`);
  }
});

test("33 who may not see what a server measures is told who may, and nothing is asked", async ({ page, url }) => {
  const asked: string[] = [];
  page.on("request", (request) => asked.push(request.postData() ?? ""));
  await open(page, url, "dev-viewer");
  await expect(page.getByText(/^You need the SRE role to see the measurements of this server\./)).toBeVisible();
  await expect(page.getByRole("figure")).toHaveCount(0);
  expect(asked.filter((body) => body.includes("healthHistory"))).toEqual([]);
  expect.soft(await violationsOfBoth(page)).toEqual([]);
});

test("33 the charts of health: none yet, refused, failed", async ({ page, url }) => {
  await open(page, url, "dev-sre");
  const answer = {
    json: {
      data: { healthHistory: { server: "host/7", since: "2026-11-21T03:12:00Z", intervalMs: 15_000, samples: [] } },
    },
  };
  await page.route("**/graphql", (route) =>
    /query HealthHistory\b/.test(route.request().postData() ?? "") ? route.fulfill(answer) : route.fallback(),
  );
  await page.reload();
  await expect(page.getByText("the first sample comes within 15 s")).toBeVisible();
  await page.unrouteAll();
  await inject(page, "forbidden");
  await expect(page.getByText("You may not see this").first()).toBeVisible();
});
