import type { Page } from "@playwright/test";
import { held, stand, takes } from "./held";
import { become, cancelRun, expect, sleeps, startRun, status, test } from "./page";

const PATHS = [
  "",
  "runs",
  "plans",
  "start",
  "inbox",
  "queue",
  "dlq",
  "audit",
  "admin/tokens",
  "admin/policy",
  "admin/quotas",
  "admin/service",
  "health",
  "workers",
  "alerts",
  "incidents",
  "deliveries",
];
const STOPS = 45;

interface Stop {
  what: string;
  ring: boolean;
  seen: boolean;
}

/**
 * The element with the focus, whether a ring shows it, and whether anything lies over it; null when the page has been
 * walked.
 */
function focused(page: Page): Promise<Stop | null> {
  return page.evaluate(() => {
    const at = document.activeElement;
    if (!(at instanceof HTMLElement) || at === document.body) return null;
    const row = at.closest("tr");
    const ring = [getComputedStyle(at), getComputedStyle(at, "::after"), ...(row ? [getComputedStyle(row)] : [])].some(
      (style) => style.outlineStyle !== "none" && Number.parseFloat(style.outlineWidth) >= 2,
    );
    const box = at.getBoundingClientRect();
    const [left, right] = [Math.max(0, box.left), Math.min(innerWidth, box.right)];
    const [top, bottom] = [Math.max(0, box.top), Math.min(innerHeight, box.bottom)];
    const seen = [0.5, 0.1, 0.9].some((x) =>
      [0.5, 0.1, 0.9].some((y) => {
        const hit = document.elementFromPoint(left + (right - left) * x, top + (bottom - top) * y);
        return hit !== null && (at.contains(hit) || hit.contains(at));
      }),
    );
    return { what: at.outerHTML.slice(0, 160), ring, seen: right > left && bottom > top && seen };
  });
}

/** Walks the page by Tab. */
async function walk(page: Page, name: string): Promise<void> {
  let stops = 0;
  for (; stops < STOPS; stops++) {
    await page.keyboard.press("Tab");
    const stop = await focused(page);
    if (stop === null) break;
    expect.soft(stop.ring, `${name}: nothing shows the focus of ${stop.what}`).toBe(true);
    expect.soft(stop.seen, `${name}: something hides ${stop.what}`).toBe(true);
  }
  expect(stops, `${name} has places to go to`).toBeGreaterThan(5);
}

test("35 the focus is seen wherever Tab leads, wide and narrow", async ({ page, url }) => {
  const runId = await startRun(url, "e2e-focus", sleeps(100, 3));
  await page.goto(`${url}/runs`);
  await become(page, "dev-admin");
  for (const width of [1440, 360]) {
    await page.setViewportSize({ width, height: 740 });
    for (const path of width === 1440
      ? [
          ...PATHS,
          "plans/e2e-focus?project=shop&env=dev",
          "plans/e2e-focus/steps/sleep_1?project=shop&env=dev",
          `compare?a=${runId}&b=${runId}`,
          `runs/${runId}?step=sleep_1`,
        ]
      : ["inbox", `runs/${runId}?step=sleep_1`]) {
      await page.goto(`${url}/${path}`);
      await expect(page.getByRole("navigation").first()).toBeVisible();
      await expect(page.locator("main").getByRole("status", { name: /^Loading/ })).toHaveCount(0);
      await walk(page, `${path} at ${width}`);
    }
  }
});

test("35 a dialog gives the focus back to what opened it", async ({ page, url }) => {
  await page.goto(`${url}/runs`);
  await become(page, "dev-admin");
  for (const [path, name] of [
    ["admin/tokens", "Create a token…"],
    ["admin/policy", "Edit…"],
    ["admin/service", /Freeze the tenant/],
  ] as const) {
    await page.goto(`${url}/${path}`);
    const opener = page.getByRole("button", { name });
    await expect(opener).not.toHaveAttribute("aria-disabled", "true");
    await opener.focus();
    await page.keyboard.press("Enter");
    await expect(page.locator("dialog[open]")).toBeVisible();
    await page.keyboard.press("Escape");
    await expect(page.locator("dialog[open]")).toHaveCount(0);
    await expect(opener).toBeFocused();
  }
});

declare global {
  interface Window {
    heard: { at: number; text: string }[];
  }
}

test("36 a run's changes are read out politely, at most once in two seconds", async ({ page, url }) => {
  await page.addInitScript(() => {
    window.heard = [];
    new MutationObserver((changes) => {
      for (const { target } of changes) {
        const region = (target instanceof Element ? target : target.parentElement)?.closest(
          "main [role=status], main [aria-live=polite]",
        );
        const text = region?.textContent ?? "";
        if (region && window.heard.at(-1)?.text !== text) window.heard.push({ at: performance.now(), text });
      }
    }).observe(document, { subtree: true, childList: true, characterData: true });
  });
  const { step, release } = held("load");
  const runId = await startRun(url, "e2e-heard", [
    step,
    ...sleeps(40, 40).map((nap) => ({ ...nap, dependsOn: ["load", ...(nap.dependsOn ?? [])] })),
  ]);
  await page.clock.install();
  await page.goto(`${url}/runs/${runId}`);
  await expect(status(page)).toHaveText("Running");
  // By the time of the page, in which nothing is late.
  await stand(page);
  release();
  await takes(page, async () => (await page.evaluate(() => window.heard.at(-1)?.text)) === "Completed", {
    step: 50,
    every: 50,
  });
  const heard = await page.evaluate(() => window.heard);
  const gaps = heard
    .filter(({ text }) => /Running|Completed/.test(text))
    .map(({ at }, i, all) => at - (all[i - 1]?.at ?? Number.NEGATIVE_INFINITY));
  for (const gap of gaps) expect(gap).toBeGreaterThanOrEqual(1_900);
});

test("36 a step says its name, how it stands, its retry and what it blocks, in every picture and table", async ({
  page,
  url,
}) => {
  const once = { maxAttempts: 1, initialBackoffMs: 100, backoffMultiplier: 1, maxBackoffMs: 100 };
  for (const { blocks, picture } of [
    { blocks: 14, picture: "graph" },
    { blocks: 314, picture: "mosaic" },
  ]) {
    const behind = Array.from({ length: blocks }, (_, i) => ({
      stepId: `model_${i}`,
      type: "NOOP" as const,
      dependsOn: ["stg_orders"],
      inputs: {},
    }));
    const failing = {
      stepId: "stg_orders",
      type: "COMMAND" as const,
      inputs: { argv: ["ls", "/no/such/file"] },
      retry: once,
    };
    const runId = await startRun(url, `e2e-names-${picture}`, [failing, ...behind]);
    const named = (took: string): RegExp => new RegExp(`^stg_orders, Retry #1, ${took}failed, blocks ${blocks}$`);
    await page.goto(`${url}/runs/${runId}`);
    await expect(status(page)).toHaveText("Failed, waiting");
    await page.keyboard.press("r");
    await page.getByRole("dialog").getByRole("button", { name: "Retry step" }).click();
    await expect(page.getByTestId("root-cause")).toContainText("Retry #1");
    for (const view of ["", "?view=steps", "?view=timeline"]) {
      await page.goto(`${url}/runs/${runId}${view}`);
      // The graph shows the duration of a step too, on a fast machine "< 0.1 s".
      const name = named(view === "" && picture === "graph" ? "(< )?[0-9.]+ s, " : "");
      await expect(page.getByRole("button", { name }), `${picture} ${view}`).toBeVisible();
    }
    await cancelRun(url, runId);
  }
});
