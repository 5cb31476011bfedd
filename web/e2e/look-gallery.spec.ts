import { fileURLToPath } from "node:url";
import type { Page } from "@playwright/test";
import { build, preview, type PreviewServer } from "vite";
import { difference, sideways, violations } from "./look";
import { expect, test } from "./page";

const WEB = fileURLToPath(new URL("..", import.meta.url));
const NOW = new Date("2026-11-21T03:12:07.000Z");
const MODES = {
  light: { colorScheme: "light", forcedColors: "none" },
  dark: { colorScheme: "dark", forcedColors: "none" },
  forced: { colorScheme: "light", forcedColors: "active" },
} as const;

let server: PreviewServer;
let gallery = "";

test.beforeAll(async () => {
  await build({ root: WEB, mode: "gallery", logLevel: "error" });
  server = await preview({ root: WEB, logLevel: "error", build: { outDir: "e2e/out/gallery" }, preview: { host: "127.0.0.1", port: 0 } });
  gallery = `${server.resolvedUrls?.local[0] ?? ""}gallery.html`;
});

test.afterAll(() => server.close());

async function open(page: Page, mode: keyof typeof MODES, state?: string): Promise<void> {
  await page.emulateMedia({ ...MODES[mode], reducedMotion: "reduce" });
  await page.goto(state === undefined ? gallery : `${gallery}?state=${state}`);
  await page.locator("[data-state]").first().waitFor();
}

/** The states that are shown alone. */
async function alone(page: Page): Promise<string[]> {
  return ((await page.locator("main[data-states]").getAttribute("data-states")) ?? "").split(" ");
}

test.beforeEach(({ page }) => page.clock.setFixedTime(NOW));

for (const mode of Object.keys(MODES) as (keyof typeof MODES)[]) {
  test(`33 every component in every state: axe finds nothing: ${mode}`, async ({ page }) => {
    await open(page, mode);
    // What is shown alone differs in the dark by its colours only, and forced colours are the browser's.
    const states = mode === "forced" ? [] : await alone(page);
    expect.soft(await violations(page), `gallery, ${mode}`).toEqual([]);
    for (const state of states) {
      await open(page, mode, state);
      expect.soft(await violations(page, mode === "light" ? "all" : "colour"), `${state}, ${mode}`).toEqual([]);
    }
  });
}

test("38 no component makes the page scroll sideways, from 320 to 2560 px", async ({ page }) => {
  await open(page, "light");
  const states = [undefined, ...(await alone(page))];
  for (const state of states) {
    await open(page, "light", state);
    for (const width of [320, 768, 1440, 2560]) {
      await page.setViewportSize({ width, height: 900 });
      expect.soft(await sideways(page), `${state ?? "gallery"} at ${width}`).toBe(0);
    }
  }
});

test("40 two pictures of the same build are the same, in both themes and at three widths", async ({ page, browser }) => {
  const other = await browser.newPage();
  await other.clock.setFixedTime(NOW);
  for (const mode of ["light", "dark"] as const) {
    for (const width of [360, 768, 1440]) {
      const [first, second] = await Promise.all(
        [page, other].map(async (one) => {
          await one.setViewportSize({ width, height: 900 });
          await open(one, mode);
          return one.screenshot({ path: fileURLToPath(new URL(`out/gallery-${width}-${mode}.png`, import.meta.url)), fullPage: true });
        }),
      );
      if (first && second) expect(await difference(page, first, second), `${mode} at ${width}`).toBeLessThanOrEqual(0.001);
    }
  }
  await other.close();
});
