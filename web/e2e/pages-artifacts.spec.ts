import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { load } from "./dvt";
import { expectFits, violationsOfBoth } from "./look";
import { expect, status, test } from "./page";

test.use({ alone: true });

const RUN_MS = 480_000;

test("artifacts of a run are listed, opened, searched and downloaded, and never executed", async ({ page, url }) => {
  test.skip(load().own === null, "the test changes files in the bucket of a dvt of its own");
  test.setTimeout(2 * RUN_MS);
  await page.goto(`${url}/runs?plan=shop`);
  await page.locator("tr[data-run]").first().getByRole("link").click();
  await expect(status(page)).toHaveText("Completed", { timeout: RUN_MS });
  const runId = /\/runs\/([^/?]+)/.exec(page.url())?.[1] ?? "";

  await page.goto(`${url}/runs/${runId}?view=artifacts`);
  const table = page.getByRole("region", { name: "Artifacts" });
  await expect(table.getByRole("link", { name: "Open manifest.json" }).first()).toBeVisible();
  await expect(table.getByText("no end is set").first()).toBeVisible();
  await page.getByRole("combobox", { name: "Kind" }).selectOption("dbt-run-results");
  await expect(table.getByRole("link", { name: "Open manifest.json" })).toHaveCount(0);
  await expect(page).toHaveURL(/kind=dbt-run-results/);
  await page.setViewportSize({ width: 390, height: 844 });
  await expectFits(page, "artifacts of a run on a phone");
  await page.setViewportSize({ width: 1440, height: 900 });
  expect.soft(await violationsOfBoth(page), "the list").toEqual([]);

  // Results of dbt, as a table.
  await table.getByRole("link", { name: "Open run_results.json" }).first().click();
  await expect(page.getByRole("heading", { name: "run_results.json" })).toBeVisible();
  const results = page.getByRole("table", { name: "dbt run results" });
  await expect(results.getByRole("columnheader")).toHaveText(["Node", "Status", "Took", "Rows", "Message"]);
  await expect(results.getByRole("row").nth(1)).toBeVisible();
  const all = Number(await results.getAttribute("aria-rowcount")) - 1;
  expect(all).toBeGreaterThan(0);
  await page.getByRole("searchbox", { name: "Find" }).fill("no node has this name");
  await expect(page.getByText("Nothing contains this.")).toBeVisible();
  await page.getByRole("searchbox", { name: "Find" }).fill("");
  await expect(page.getByText(`${all} node`)).toBeVisible();
  expect.soft(await violationsOfBoth(page), "results").toEqual([]);
  await page.setViewportSize({ width: 390, height: 844 });
  await expectFits(page, "an artifact on a phone");
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.getByRole("button", { name: "Show as text" }).click();
  await expect(page.getByRole("region", { name: "Content of run_results.json" })).toContainText('"results"');

  const downloading = page.waitForEvent("download");
  await page.getByRole("link", { name: "Download" }).click();
  const download = await downloading;
  expect(download.suggestedFilename()).toBe("run_results.json");
  const saved = JSON.parse(readFileSync(await download.path(), "utf8")) as { results: unknown[] };
  expect(saved.results.length).toBe(all);

  // The manifest, and what becomes of it in the bucket.
  await page.goto(`${url}/runs/${runId}?view=artifacts&kind=dbt-manifest`);
  await table.getByRole("link", { name: "Open manifest.json" }).first().click();
  const manifest = page.getByRole("table", { name: "dbt manifest" });
  await expect(manifest.getByRole("row").nth(1)).toBeVisible();
  await page.getByRole("searchbox", { name: "Find" }).fill("stg_orders");
  await expect(manifest.getByRole("row").nth(1)).toContainText("stg_orders");
  const uri = new URL(page.url()).searchParams.get("uri") ?? "";
  const stored = join(load().data, "artifacts", "artifacts", uri.replace("artifact:", ""));
  const before = readFileSync(stored);

  // Markup of the same size: it is neither shown as a page nor given whole. The browser has the file of before, which is
  // still what the step reported.
  const browser = await page.context().newCDPSession(page);
  await browser.send("Network.enable");
  await browser.send("Network.setCacheDisabled", { cacheDisabled: true });
  writeFileSync(stored, "<script>document.title='owned'</script>".padEnd(before.length, " "));
  await page.reload();
  await expect(page.getByText(/could not be read|is not what the step reported/)).toBeVisible();
  await expect(page).not.toHaveTitle("owned");
  const address = `/artifacts/${uri.replace(/^artifact:[^/]+\//, "")}`;
  const opened = await page.context().newPage();
  await opened.goto(`${url}${address}`).catch(() => null); // a download ends the navigation
  await expect(opened).not.toHaveTitle("owned");
  await opened.close();

  writeFileSync(stored, "short");
  await page.reload();
  await expect(page.getByText("The stored file is not what the step reported")).toBeVisible();
  rmSync(stored);
  await page.reload();
  await expect(page.getByText("The content of this file was removed")).toBeVisible();
  expect.soft(await violationsOfBoth(page), "removed").toEqual([]);
  writeFileSync(stored, before);
  await page.reload();
  await expect(manifest.getByRole("row").nth(1)).toContainText("stg_orders");
});

test("a link downloads an artifact without sign-in, and a changed link does not", async ({ page, url, browser }) => {
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.goto(`${url}/runs?plan=shop`);
  await page.locator("tr[data-run]").first().getByRole("link").click();
  await expect(status(page)).toHaveText("Completed", { timeout: RUN_MS });
  await page.getByRole("link", { name: "Artifacts" }).click();
  await page.getByRole("link", { name: "Open manifest.json" }).first().click();
  await page.getByRole("button", { name: "Copy download link" }).click();
  await expect(page.getByText("It downloads the file without sign-in for 5 minutes")).toBeVisible();
  const link = await page.evaluate(() => navigator.clipboard.readText());
  const stranger = await browser.newContext();
  const got = await stranger.request.get(link);
  expect(got.status()).toBe(200);
  expect(got.headers()["content-disposition"]).toBe("attachment; filename=manifest.json");
  expect((await stranger.request.get(`${link}x`)).status()).toBe(404);
  expect((await stranger.request.get(link.split("?")[0] ?? "")).status()).toBe(401);
  await stranger.close();
});
