import { fileURLToPath } from "node:url";
import type { Page } from "@playwright/test";
import { build, preview, type PreviewServer } from "vite";
import { difference, expectFits, violations, violationsOfBoth } from "./look";
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
  server = await preview({
    root: WEB,
    logLevel: "error",
    build: { outDir: "e2e/out/gallery" },
    preview: { host: "127.0.0.1", port: 0 },
  });
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

test("33 38 every component in every state: axe finds nothing: light and dark; no page scrolls sideways", async ({
  page,
}) => {
  await open(page, "light");
  for (const state of [undefined, ...(await alone(page))]) {
    // Both themes and all widths of one load of the page: loading took more CPU time than the rules of colour.
    await open(page, "light", state);
    expect.soft(await violationsOfBoth(page), state ?? "gallery").toEqual([]);
    await page.emulateMedia({ colorScheme: "light" });
    for (const width of [320, 768, 2560, 1440]) {
      await page.setViewportSize({ width, height: 900 });
      await expectFits(page, `${state ?? "gallery"} at ${width}`);
    }
  }
});

// Browsers set forced colours, so the states that are shown alone add nothing to those of the gallery.
test("33 every component in every state: axe finds nothing: forced", async ({ page }) => {
  await open(page, "forced");
  expect.soft(await violations(page, "all"), "gallery, forced").toEqual([]);
});

test("40 two pictures of the same build are the same, in both themes and at three widths", async ({
  page,
  browser,
}) => {
  const other = await browser.newPage();
  await other.clock.setFixedTime(NOW);
  for (const mode of ["light", "dark"] as const) {
    await Promise.all([page, other].map((one) => open(one, mode)));
    for (const width of [360, 768, 1440]) {
      await Promise.all([page, other].map((one) => one.setViewportSize({ width, height: 900 })));
      // Late content comes to both.
      const differs = async (): Promise<number> => {
        const pictures = [page, other].map((one) =>
          one.screenshot({
            path: fileURLToPath(new URL(`out/gallery-${width}-${mode}.png`, import.meta.url)),
            fullPage: true,
          }),
        );
        const [first, second] = await Promise.all(pictures);
        return first && second ? difference(page, first, second) : 1;
      };
      await expect.poll(differs, { message: `${mode} at ${width}` }).toBeLessThanOrEqual(0.001);
    }
  }
  await other.close();
});

/** How dark each point of an icon is, without colour, from 0 to 1, on a grid of its own size. */
async function shapes(page: Page): Promise<Map<string, number[]>> {
  const found = new Map<string, number[]>();
  for (const glyph of await page.locator("[data-glyph]").all()) {
    const picture = (await glyph.locator("svg").screenshot({ scale: "css" })).toString("base64");
    const ink = await page.evaluate(async (base64) => {
      const image = new Image();
      image.src = `data:image/png;base64,${base64}`;
      await image.decode();
      const context = new OffscreenCanvas(64, 64).getContext("2d");
      context?.drawImage(image, 0, 0, 64, 64);
      const data = context?.getImageData(0, 0, 64, 64).data ?? [];
      const grey = Array.from(
        { length: 64 * 64 },
        (_, i) => 0.2126 * (data[i * 4] ?? 0) + 0.7152 * (data[i * 4 + 1] ?? 0) + 0.0722 * (data[i * 4 + 2] ?? 0),
      );
      const ground = grey[0] ?? 0;
      const far = Math.max(...grey.map((value) => Math.abs(value - ground)));
      return grey.map((value) => Math.abs(value - ground) / far);
    }, picture);
    found.set((await glyph.getAttribute("data-glyph")) ?? "", ink);
  }
  return found;
}

test("37 without any colour, the icon alone tells 10 of 10 statuses", async ({ page }) => {
  await open(page, "light", "glyphs");
  const templates = await shapes(page);
  await open(page, "dark", "glyphs");
  const samples = await shapes(page);
  expect(templates.size).toBe(10);
  for (const [tone, sample] of samples) {
    const apart = [...templates]
      .map(([other, template]) => ({
        other,
        by: template.reduce((sum, value, i) => sum + Math.abs(value - (sample[i] ?? 0)), 0),
      }))
      .toSorted((a, b) => a.by - b.by);
    expect(apart[0]?.other, tone).toBe(tone);
    // Not by a hair: the next one is at least twice as far.
    expect((apart[1]?.by ?? 0) / (apart[0]?.by ?? 1), `${tone} and ${apart[1]?.other ?? ""}`).toBeGreaterThan(2);
  }
});
