// The pages about the API, and the links that show a status to people who are not signed in.
import { expectFits, violationsOfBoth } from "./look";
import { ask } from "./api";
import { cancelRun, expect, sleeps, startRun, test } from "./page";

test("the API explorer runs a query and a subscription with the session, and shows the schema", async ({
  page,
  url,
  context,
}) => {
  const foreign: string[] = [];
  page.on("request", (request) => {
    if (!request.url().startsWith(url) && !request.url().startsWith("data:")) foreign.push(request.url());
  });
  const response = await page.goto(`${url}/graphiql`);
  expect(response?.status()).toBe(200);
  await page.getByRole("button", { name: "Run", exact: true }).first().click();
  const result = page.getByRole("region", { name: "Result" });
  await expect(result.locator("pre")).toContainText('"principal": "dev-engineer"');
  const query = page.getByLabel("Query, mutation or subscription");
  await query.fill("query Q($id: String!) { run(runId: $id) { status } nothing }");
  await query.press("Control+Enter");
  await expect(result.locator("pre")).toContainText("nothing");

  await query.press("Control+A");
  await query.pressSequentially("{ vie");
  await expect(page.getByRole("option", { name: /^viewer/ })).toBeVisible();
  await query.fill("{ nosuch }");
  await expect(page.getByTestId("query-editor").locator(".cm-lintRange-error")).toHaveText("nosuch");

  const runId = await startRun(url, "explored", sleeps(1_500, 4));
  await query.fill("subscription S($id: String!) { runUpdates(runId: $id) { sync } }");
  await page.getByLabel("Variables (JSON)").fill(JSON.stringify({ id: runId }));
  await query.press("Control+Enter");
  await expect(result.locator("pre").first()).toContainText('"runUpdates"');
  await expect(result.getByRole("status")).toHaveText(/[2-9]\d* messages/);
  await page.getByRole("button", { name: "Stop", exact: true }).click();
  await cancelRun(url, runId);

  const docs = page.getByRole("region", { name: "Schema" });
  await docs.getByLabel("Find a type or field").fill("approveRun");
  await docs.getByRole("button", { name: "Mutation" }).click();
  await docs.getByRole("button", { name: "ApproveRunInput!" }).click();
  await expect(docs.getByRole("heading", { name: "ApproveRunInput" })).toBeVisible();
  expect(await violationsOfBoth(page)).toEqual([]);
  await page.setViewportSize({ width: 390, height: 844 });
  await expectFits(page, "the explorer");
  expect(foreign).toEqual([]);

  await context.clearCookies();
  await page.goto(`${url}/graphiql`);
  await expect(page.getByText("dvt dev link")).toBeVisible();
  await expect(page.getByLabel("Query, mutation or subscription")).toHaveCount(0);
});

test("the reference of the API opens each type and each code, and its links lead somewhere", async ({ page, url }) => {
  await page.goto(`${url}/docs/api`);
  const dead = await page
    .locator('a[href^="#"]')
    .evaluateAll((links) =>
      links.map((link) => link.getAttribute("href") ?? "").filter((href) => !document.getElementById(href.slice(1))),
    );
  expect(dead).toEqual([]);
  await page.getByRole("link", { name: "RunPayload!" }).first().click();
  await expect(page.locator("section:target h3")).toContainText("RunPayload");
  await page.goto(`${url}/docs/api#RUN_MOVED`);
  await expect(page.locator("dt:target")).toContainText("RUN_MOVED");
});

test("a share link shows the status to a stranger, after the tenant permits it", async ({ page, url, browser }) => {
  const runId = await startRun(url, "shared", sleeps(60_000, 1));
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  const share = page.getByRole("button", { name: "Copy a link that shows the status" });
  await page.goto(`${url}/runs/${runId}`);
  await page.getByRole("button", { name: "Share", exact: true }).click();
  await expect(page.getByRole("button", { name: "Copy link", exact: true })).toBeVisible();
  await expect(share).toHaveCount(0);
  const permit = (hours: number): Promise<unknown> =>
    ask(url, "dev-admin", "mutation S($input: SetShareLinksInput!) { setShareLinks(input: $input) { __typename } }", {
      input: { requestId: `e2e-${Date.now()}`, hours, reason: "e2e" },
    });
  await permit(24);
  await page.reload();
  await page.getByRole("button", { name: "Share", exact: true }).click();
  await share.click();
  await expect(page.getByText("Link copied", { exact: true })).toBeVisible();
  const link = await page.evaluate(() => navigator.clipboard.readText());
  expect(link).toMatch(new RegExp(`^${url}/s/`));
  expect(await violationsOfBoth(page)).toEqual([]);

  const context = await browser.newContext();
  const stranger = await context.newPage();
  await stranger.goto(link);
  await expect(stranger).toHaveTitle("shared@1.0: running");
  await expect(stranger.locator('meta[property="og:title"]')).toHaveAttribute("content", "shared@1.0: running");
  expect(await violationsOfBoth(stranger)).toEqual([]);
  await stranger.getByRole("link", { name: "Open the run" }).click();
  await expect(stranger.getByText("dvt dev link")).toBeVisible();
  await permit(0);
  // A browser keeps the page for some seconds.
  expect((await stranger.request.get(link)).status()).toBe(404);
  await context.close();
  await cancelRun(url, runId);
});
