// The way to every picture of the guides, on the real interface. internal/archtest compares the names with those that
// the documents show.
import { chmodSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { Page } from "@playwright/test";
import { signal } from "../e2e/api";
import { destinationsOf, load } from "../e2e/dvt";
import { become, cancelRun, expect, startRun, status, sync, test } from "../e2e/page";
import { requireApproval } from "../e2e/policy";
import { calm, large, nightly, slow } from "./states";

const MISSING = "/data/shop/orders.csv";

type Theme = "light" | "dark";

/** What is done with each place that the guides show. */
export type Take = (page: Page, name: string) => Promise<void>;

async function open(page: Page, address: string): Promise<void> {
  await page.goto(address);
  await expect(page.getByRole("navigation").first()).toBeVisible();
  await expect(page.locator("main").getByRole("status", { name: /^Loading/ })).toHaveCount(0);
}

/** Answers as before the first pass of the retention, which a server makes some minutes after its start. */
async function withoutPass(page: Page): Promise<void> {
  await page.route("**/graphql", async (route) => {
    if (!/query Retention\b/.test(route.request().postData() ?? "")) return route.fallback();
    const response = await route.fetch();
    const answer = (await response.json()) as { data: { retentionPolicy: { lastPass: unknown } } };
    answer.data.retentionPolicy.lastPass = null;
    return route.fulfill({ response, json: answer });
  });
}

/**
 * Declares one test, because each part of the way finds what the parts before left. The large run is left out of what is
 * to be quick.
 */
export function pictures(take: Take, all: boolean): void {
  const picture = async (page: Page, name: string, theme: Theme = "light"): Promise<void> => {
    await page.emulateMedia({ colorScheme: theme, reducedMotion: "reduce" });
    // Nothing that the pointer or the focus adds, and what came late.
    await page.mouse.move(0, 0);
    await page.waitForTimeout(500);
    await take(page, name);
  };

  const broken = async (page: Page, url: string): Promise<void> => {
    for (const planId of ["hourly", "hourly", "catalog"]) await startRun(url, planId, calm());
    const failed = await startRun(url, "nightly", nightly(MISSING), "prod");
    const running = await startRun(url, "backfill", slow(), "prod");
    await open(page, `${url}/runs/${failed}`);
    await expect(status(page)).toHaveText("Failed, waiting", { timeout: 60_000 });
    await picture(page, "run");
    await picture(page, "run-dark", "dark");
    await open(page, `${url}/runs/${failed}?step=stg_orders`);
    await expect(page.getByRole("region", { name: "Log" })).toContainText("No such file");
    await picture(page, "step-log");
    await open(page, `${url}/runs/${failed}?view=timeline`);
    // It is offered once the wait for a person is long beside the work, which a slow machine reaches before.
    await expect(page.getByRole("button", { name: "Shorten waits" })).toBeVisible({ timeout: 60_000 });
    await picture(page, "timeline");
    await open(page, `${url}/runs/${failed}`);
    await page.getByRole("button", { name: "Retry step…" }).first().click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel(/Reason/).fill("the export came late; the file is there now");
    await picture(page, "retry");
    await page.keyboard.press("Escape");
    await page.setViewportSize({ width: 360, height: 740 });
    await open(page, `${url}/runs/${failed}`);
    await picture(page, "phone");
    await page.setViewportSize({ width: 1280, height: 800 });
    await open(page, `${url}/runs`);
    await expect(sync(page)).toContainText("Live");
    await picture(page, "runs");
    await open(page, `${url}/runs/${running}`);
    await page.getByRole("button", { name: "Pause…" }).click();
    await page
      .getByRole("dialog")
      .getByLabel(/Reason/)
      .fill("warehouse maintenance");
    await page.getByRole("dialog").getByRole("button", { name: "Pause", exact: true }).click();
    await expect(page.locator('[data-receipt="PAUSE"]').first()).toContainText(/Applied at seq \d+/);
    await picture(page, "paused");
    await cancelRun(url, running, "planned again for the night");
    await open(page, `${url}/runs/${failed}?at=8`);
    await picture(page, "moment");
  };

  const mosaic = async (page: Page, url: string): Promise<void> => {
    const runId = await startRun(url, "warehouse", large(MISSING));
    await open(page, `${url}/runs/${runId}`);
    await expect(page.getByTestId("root-cause")).toContainText("model_640", { timeout: 120_000 });
    await picture(page, "mosaic");
    await picture(page, "mosaic-dark", "dark");
    await cancelRun(url, runId, "the export is late");
  };

  const start = async (page: Page, url: string): Promise<void> => {
    const ended = await startRun(url, "hourly", calm());
    await open(page, `${url}/runs/${ended}`);
    await expect(status(page)).toHaveText("Completed", { timeout: 60_000 });
    await open(page, `${url}/start?from=${ended}`);
    await expect(page.getByRole("button", { name: "Start run" })).not.toHaveAttribute("aria-disabled", "true");
    await picture(page, "start");
  };

  const administrators = async (page: Page, url: string): Promise<void> => {
    await requireApproval(url, "prod", 1);
    await startRun(url, "nightly", nightly(MISSING), "prod");
    await open(page, `${url}/runs`);
    await become(page, "dev-planner");
    await open(page, `${url}/inbox`);
    await picture(page, "inbox");
    await become(page, "dev-admin");
    await open(page, `${url}/admin/policy`);
    await page.getByRole("button", { name: "Edit…" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "JSON" }).click();
    const text = page.getByRole("dialog").getByRole("textbox", { name: "JSON", exact: true });
    await text.fill(
      (await text.inputValue())
        .replace('"completeManual": true', '"completeManual": false')
        .replace('"required": 1', '"required": 2'),
    );
    await page
      .getByRole("dialog")
      .getByLabel(/Reason/)
      .fill("two approve what goes to production");
    await picture(page, "policy-edit");
    await page.keyboard.press("Escape");
    await open(page, `${url}/admin/tokens`);
    await page.getByRole("button", { name: "Create a token…" }).click();
    await picture(page, "token");
    await page.keyboard.press("Escape");
    await open(page, `${url}/admin/quotas`);
    await picture(page, "quotas");
    await withoutPass(page);
    await open(page, `${url}/admin/retention`);
    await picture(page, "retention");
    await open(page, `${url}/admin/erasure`);
    await count(page, "ola@example.org");
    await page.getByRole("button", { name: "Ask to erase…" }).click();
    const asking = page.getByRole("alertdialog");
    await asking.getByLabel(/^Reason/).fill("asked by letter of 12 November");
    await asking.getByLabel(/to confirm/).fill("ola@example.org");
    await asking.getByRole("button", { name: "Ask to erase" }).click();
    await expect(page.getByText("Waits for another person")).toBeVisible();
    await count(page, "dev-engineer");
    await picture(page, "erasure");
    await open(page, `${url}/audit`);
    await picture(page, "audit");
    await become(page, "dev-sre");
    await open(page, `${url}/health`);
    await expect(page.getByRole("figure").first()).toBeVisible();
    await picture(page, "health");
  };

  const operations = async (page: Page, url: string): Promise<void> => {
    await become(page, "dev-engineer");
    const runId = await startRun(url, "backfill", slow(), "prod");
    const note = "the source of orders answers no more; the marts of the night wait for it";
    await signal(url, "dev-system", runId, { escalateAlert: { level: "HIGH", note } });
    await open(page, `${url}/alerts`);
    await expect(page.getByText(note)).toBeVisible();
    await picture(page, "alerts");
    await open(page, `${url}/incidents`);
    await page.getByRole("link", { name: note }).click({ timeout: 60_000 });
    await page.getByRole("button", { name: "Take it on…" }).click();
    await page.keyboard.type("calling the owner of the source");
    await page.keyboard.press("Enter");
    await expect(page.getByText("dev-engineer took it on")).toBeVisible();
    await page.getByRole("heading", { level: 1 }).click();
    await picture(page, "incident");
    await cancelRun(url, runId);
    await become(page, "dev-sre");
    await open(page, `${url}/workers`);
    await expect(page.getByText(/^0 of \d+ slots$/)).toBeVisible({ timeout: 120_000 });
    await picture(page, "workers");
    await open(page, `${url}/deliveries`);
    const end = await destinations();
    const row = page.getByRole("row");
    // A new destination gets what happens from now on.
    await expect(row.filter({ hasText: "billing" })).toContainText("Webhook", { timeout: 60_000 });
    await startRun(url, "hourly", calm());
    await expect(row.filter({ hasText: "billing" })).toContainText("Accepts messages; the last one", {
      timeout: 60_000,
    });
    await expect(row.filter({ hasText: "lake" })).toContainText("Has accepted nothing since", { timeout: 60_000 });
    await picture(page, "deliveries");
    end();
  };

  test("the pictures of the guides", async ({ page, url }) => {
    await test.step("runs and the run that broke", () => broken(page, url));
    if (all) await test.step("1,500 steps", () => mosaic(page, url));
    await test.step("start", () => start(page, url));
    await test.step("inbox, queue and what administrators see", () => administrators(page, url));
    await test.step("alerts, an incident, workers and deliveries", () => operations(page, url));
  });
}

/** Counts what erasing a person would erase. */
async function count(page: Page, person: string): Promise<void> {
  await page.getByLabel("Principal", { exact: true }).fill(person);
  await page.getByRole("button", { name: "Count what it would erase" }).click();
  await expect(page.getByRole("button", { name: "Ask to erase…" })).toBeVisible();
}

/** Lists a destination that accepts every message, and one that nobody listens at. */
async function destinations(): Promise<() => void> {
  const receiver = createServer((request, response) => request.resume().on("end", () => response.end()));
  await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
  const { port } = receiver.address() as AddressInfo;
  const file = destinationsOf(load().data);
  const secret = `${file}.secret`;
  writeFileSync(secret, `whsec_${Buffer.alloc(32, 7).toString("base64")}\n`);
  chmodSync(secret, 0o600);
  const at = (name: string, to: number): object => ({
    name,
    kind: "webhook",
    url: `http://127.0.0.1:${to}/dvt`,
    secrets: [{ file: secret }],
    route: { topics: ["events"] },
  });
  writeFileSync(file, JSON.stringify({ destinations: [at("billing", port), at("lake", 9)] }));
  return () => {
    receiver.close();
    rmSync(secret);
  };
}
