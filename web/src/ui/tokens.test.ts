import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

const source = new URL("..", import.meta.url).pathname;
const tokens = new Map(
  [...readFileSync(join(source, "ui/tokens.css"), "utf8").matchAll(/--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)/g)].map(
    ([, name = "", light = "", dark = ""]) => [name, { light, dark }],
  ),
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

const TONES = ["pending", "approved", "running", "paused", "person", "success", "failed", "cancelled", "skipped", "unknown"];

describe.each(["light", "dark"] as const)("%s", (theme) => {
  const of = (name: string): string => tokens.get(name)?.[theme] ?? "";
  it.each(TONES)("%s reads on the page, a surface and its tint", (tone) => {
    for (const ground of ["page", "surface", "raised", `${tone}-tint`]) {
      expect(contrast(of(tone), of(ground)), `${tone} on ${ground}`).toBeGreaterThanOrEqual(4.5);
    }
  });
  it("text and controls read", () => {
    for (const ground of ["page", "surface", "raised", "hover"]) {
      expect(contrast(of("text"), of(ground))).toBeGreaterThanOrEqual(7);
      expect(contrast(of("secondary"), of(ground))).toBeGreaterThanOrEqual(4.5);
    }
    expect(contrast(of("on-accent"), of("accent"))).toBeGreaterThanOrEqual(4.5);
    expect(contrast(of("control"), of("page"))).toBeGreaterThanOrEqual(3);
  });
});

it("names colours nowhere else", () => {
  const files = readdirSync(source, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".css") && !name.endsWith("tokens.css"));
  expect(files.length).toBeGreaterThan(5);
  for (const file of files) {
    expect(readFileSync(join(source, file), "utf8"), file).not.toMatch(/#[0-9a-f]{3,8}\b|\b(rgb|hsl|oklch)a?\(/i);
  }
});
