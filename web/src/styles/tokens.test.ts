import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

const source = new URL("..", import.meta.url).pathname;
const tokens = new Map(
  [
    ...readFileSync(join(source, "styles/tokens.css"), "utf8").matchAll(
      /--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)/g,
    ),
  ].map(([, name = "", light = "", dark = ""]) => [name, { light, dark }]),
);

function luminance(colour: string): number {
  const [r = 0, g = 0, b = 0] = [1, 3, 5].map((at) => {
    const channel = Number.parseInt(colour.slice(at, at + 2), 16) / 255;
    return channel <= 0.04045 ? channel / 12.92 : ((channel + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(a: string, b: string): number {
  const [high = 0, low = 0] = [luminance(a), luminance(b)].toSorted((x, y) => y - x);
  return (high + 0.05) / (low + 0.05);
}

// The contrast of each colour on the page, and the least contrast on its own tint.
const FIGURES: Record<string, { light: [number, number]; dark: [number, number] }> = {
  pending: { light: [6.1, 4.9], dark: [8.0, 5.5] },
  approved: { light: [6.5, 5.2], dark: [9.2, 6.2] },
  running: { light: [6.4, 5.1], dark: [8.9, 6.0] },
  paused: { light: [7.0, 5.7], dark: [8.9, 6.0] },
  person: { light: [6.4, 5.2], dark: [10.4, 6.9] },
  success: { light: [5.9, 4.8], dark: [9.7, 6.5] },
  failed: { light: [6.5, 5.1], dark: [7.9, 5.6] },
  cancelled: { light: [7.4, 6.0], dark: [9.0, 6.1] },
  skipped: { light: [5.6, 4.6], dark: [7.0, 4.9] },
  unknown: { light: [7.6, 6.0], dark: [9.2, 6.2] },
};
const OTHERS = [
  { name: "text", ground: "page", light: 17.4, dark: 16.0 },
  { name: "secondary", ground: "surface", light: 6.9, dark: 7.6 },
  { name: "control", ground: "surface", light: 3.4, dark: 3.9 },
  { name: "accent", ground: "page", light: 6.4, dark: 8.9 },
];

describe.each(["light", "dark"] as const)("37 %s", (theme) => {
  const of = (name: string): string => tokens.get(name)?.[theme] ?? "";
  it.each(Object.keys(FIGURES))("%s meets its figures within 0.1, and reads on every surface", (tone) => {
    const [page, tint] = FIGURES[tone]?.[theme] ?? [0, 0];
    expect(Math.abs(contrast(of(tone), of("page")) - page), "page").toBeLessThanOrEqual(0.1);
    expect(contrast(of(tone), of(`${tone}-tint`)), "tint").toBeGreaterThanOrEqual(tint - 0.1);
    for (const ground of ["page", "surface", "raised", `${tone}-tint`]) {
      expect(contrast(of(tone), of(ground)), `${tone} on ${ground}`).toBeGreaterThanOrEqual(4.5);
    }
  });
  it.each(OTHERS)("$name meets its figure within 0.1", ({ name, ground, ...figure }) => {
    expect(Math.abs(contrast(of(name), of(ground)) - figure[theme])).toBeLessThanOrEqual(0.1);
  });
  it("37 text and controls read", () => {
    for (const ground of ["page", "surface", "raised", "hover"]) {
      expect(contrast(of("text"), of(ground))).toBeGreaterThanOrEqual(7);
      expect(contrast(of("secondary"), of(ground))).toBeGreaterThanOrEqual(4.5);
    }
    expect(contrast(of("on-accent"), of("accent"))).toBeGreaterThanOrEqual(4.5);
    expect(contrast(of("control"), of("page"))).toBeGreaterThanOrEqual(3);
  });
});

it("names colours nowhere else", () => {
  const files = readdirSync(source, { recursive: true, encoding: "utf8" }).filter(
    (name) => name.endsWith(".css") && !name.endsWith("tokens.css"),
  );
  expect(files.length).toBeGreaterThan(5);
  for (const file of files) {
    expect(readFileSync(join(source, file), "utf8"), file).not.toMatch(/#[0-9a-f]{3,8}\b|\b(rgb|hsl|oklch)a?\(/i);
  }
});
