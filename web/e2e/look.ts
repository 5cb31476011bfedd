// What every page must hold to, whatever is on it.
import AxeBuilder from "@axe-core/playwright";
import { expect, type Page } from "@playwright/test";

const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];

/**
 * What axe has against the page, or a part of it, one line each, with the place: by every rule, or by those of colour
 * alone.
 */
export async function violations(page: Page, rules: "all" | "colour" = "all", part?: string): Promise<string[]> {
  // In one piece: ours have no frames whose parts were to be put together, in a page opened for it each time.
  // axe describes each element that passes unless it is asked for violations only.
  const axe = new AxeBuilder({ page }).setLegacyMode().options({ resultTypes: ["violations"] });
  if (part !== undefined) axe.include(part);
  const { violations } = await (rules === "all" ? axe.withTags(RULES) : axe.withRules("color-contrast")).analyze();
  return violations.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.html} ${node.failureSummary}`));
}

/** What axe has against the page as it stands: in the light by every rule, in the dark by its colours. */
export async function violationsOfBoth(page: Page): Promise<string[]> {
  const found: string[] = [];
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    found.push(
      ...(await violations(page, colorScheme === "light" ? "all" : "colour")).map((one) => `${colorScheme}: ${one}`),
    );
  }
  return found;
}

/** The page does not scroll sideways, as soon as it has come to its new width; a failure does not end the test. */
export function expectFits(page: Page, what: string): Promise<void> {
  const sideways = (): Promise<number> =>
    page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  return expect
    .configure({ soft: true })
    .poll(sideways, { message: `${what} scrolls sideways`, timeout: 10_000 })
    .toBe(0);
}

/** Which part of the pixels of two pictures is not the same, from 0 to 1; pictures of different size differ wholly. */
export async function difference(page: Page, a: Buffer, b: Buffer): Promise<number> {
  if (a.equals(b)) return 0;
  return page.evaluate(
    async (pictures) => {
      const [one, two] = await Promise.all(
        pictures.map(async (base64) => {
          const image = new Image();
          image.src = `data:image/png;base64,${base64}`;
          await image.decode();
          const context = new OffscreenCanvas(image.width, image.height).getContext("2d");
          context?.drawImage(image, 0, 0);
          return context?.getImageData(0, 0, image.width, image.height);
        }),
      );
      if (!one || !two || one.width !== two.width || one.height !== two.height) return 1;
      let differing = 0;
      for (let i = 0; i < one.data.length; i += 4) {
        if ([0, 1, 2].some((channel) => one.data[i + channel] !== two.data[i + channel])) differing += 1;
      }
      return differing / (one.width * one.height);
    },
    [a.toString("base64"), b.toString("base64")],
  );
}
