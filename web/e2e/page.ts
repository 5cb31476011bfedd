import { randomBytes } from "node:crypto";
import { setTimeout } from "node:timers/promises";
import { type BrowserContext, expect, type Locator, type Page, test as base } from "@playwright/test";
import { close, link, open, READY_MS, tokenOf } from "./dvt";

export interface PlanStep {
  stepId: string;
  type: "SLEEP" | "COMMAND" | "NOOP" | "MANUAL" | "DBT_RUN";
  dependsOn?: string[];
  inputs: Record<string, unknown>;
  timeout?: string;
  secretRefs?: { provider: string; key: string; version?: string }[];
  retry?: { maxAttempts: number; initialBackoffMs: number; backoffMultiplier: number; maxBackoffMs: number };
}

export const test = base.extend<{ noise: string[] }, { alone: boolean; url: string }>({
  /** True: a dvt that no other tests have seen, with the sample run. Others have no sample run. */
  alone: [false, { scope: "worker", option: true }],
  /** Each worker has a dvt of its own. */
  url: [
    async ({ alone }, use) => {
      const { url } = await open(alone);
      await use(url);
      await close();
    },
    { scope: "worker", timeout: READY_MS + 30_000 },
  ],
  /** The browser of a test is signed in, by a link. */
  context: async ({ context, url }, use) => {
    if (url !== "") await signIn(context);
    await use(context);
  },
  /** Everything the browser complained of; a page of ours gives it no reason. */
  noise: [
    async ({ page }, use) => {
      const noise: string[] = [];
      page.on("pageerror", (error) => noise.push(error.message));
      page.on("console", (message) => {
        if (/Content Security Policy|Minified React error/.test(message.text())) noise.push(message.text());
      });
      await use(noise);
      expect(noise).toEqual([]);
    },
    { auto: true },
  ],
});

export { expect } from "@playwright/test";

/** Signs a browser in by a new link. */
export async function signIn(context: BrowserContext, principal = "dev-engineer"): Promise<void> {
  const response = await context.request.get(await link(principal), { maxRedirects: 0 });
  if (response.status() !== 303) throw new Error(`the link was answered with ${response.status()}`);
}

const LOADED_MS = 60_000;

/** Starts a run by the API, as a script would: it comes back when dvt says so of a machine with too much to do. */
export async function startRun(
  url: string,
  planId: string,
  steps: PlanStep[],
  environmentId = "dev",
  planVersion = "1.0",
  deadline?: { within: string },
): Promise<string> {
  const inline = {
    schemaVersion: "v1.2",
    metadata: {
      planId,
      planVersion,
      createdAt: "2026-11-21T00:00:00Z",
      createdBy: "e2e",
      schemaVersion: "v1.2",
      failurePolicy: { retryWindowSeconds: 600, cancelRunning: false },
      ...(deadline ? { deadline } : {}),
    },
    scope: { tenantId: "acme", projectId: "shop", environmentId, repoSha: "0".repeat(40) },
    steps: steps.map((step) => ({ timeout: "2m", ...step })),
  };
  const query = "mutation Start($input: StartRunInput!) { startRun(input: $input) { run { runId } } }";
  const input = {
    plan: { inline },
    runRequestId: `e2e-${randomBytes(8).toString("hex")}`,
    projectId: "shop",
    environmentId,
  };
  for (const began = Date.now(); ;) {
    const response = await fetch(`${url}/graphql`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${tokenOf("dev-engineer")}` },
      body: JSON.stringify({ query, variables: { input } }),
    });
    const text = await response.text();
    const runId = /"runId":\s*"([^"]+)"/.exec(text)?.[1];
    if (runId) return runId;
    const afterMs = /"code":\s*"(?:ENGINE_DEGRADED|STORE_OVERLOADED)".*"retryAfterMs":\s*(\d+)/.exec(text)?.[1];
    if (afterMs === undefined || Date.now() - began > LOADED_MS)
      throw new Error(`startRun answered ${response.status}: ${text.slice(0, 800)}`);
    await setTimeout(Number(afterMs));
  }
}

/** Asks for the end of a run that the tests need no more. */
export async function cancelRun(url: string, runId: string, reason = "the test is over"): Promise<void> {
  const query = "mutation Cancel($input: CancelRunInput!) { cancelRun(input: $input) { signal { signalId } } }";
  const input = { runId, signalId: `e2e-${randomBytes(8).toString("hex")}`, reason };
  const response = await fetch(`${url}/graphql`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${tokenOf("dev-engineer")}` },
    body: JSON.stringify({ query, variables: { input } }),
  });
  const text = await response.text();
  if (!text.includes('"signalId"')) throw new Error(`cancelRun answered ${response.status}: ${text.slice(0, 800)}`);
}

export function sleeps(ms: number, count: number): PlanStep[] {
  return Array.from({ length: count }, (_, i) => ({
    stepId: `sleep_${i + 1}`,
    type: "SLEEP",
    dependsOn: i === 0 ? [] : [`sleep_${i}`],
    inputs: { ms },
  }));
}

export function status(page: Page): Locator {
  return page.getByTestId("run-status");
}

export function sync(page: Page): Locator {
  return page.getByTestId("sync");
}

/**
 * Goes to a page from another one as a link does. The UI is not loaded again, which would take most of the CPU time of
 * tests that visit many pages. Each page writes its title.
 */
export async function visit(page: Page, path: string): Promise<void> {
  const leaving = "leaving";
  const left = await page.evaluate(
    ([to, title]) => {
      const from = location.pathname;
      if (to === from + location.search) return false;
      history.pushState(null, "", to);
      // Another view of a page keeps the title.
      if (location.pathname !== from) document.title = title;
      return location.pathname !== from;
    },
    [`/${path}`, leaving] as const,
  );
  if (left) await expect(page, path).not.toHaveTitle(leaving);
}

/** Becomes another principal of `dvt dev` in this browser. */
export async function become(page: Page, principal: string): Promise<void> {
  const loaded = page.waitForEvent("load");
  await page.getByRole("button", { name: /^Principal/ }).click();
  await page.getByLabel("Signed in as").selectOption(principal);
  await loaded;
  await expect(page.getByLabel("Signed in as")).toHaveValue(principal);
}
