import { fileURLToPath } from "node:url";
import type { Page } from "@playwright/test";

const SAID =
  /^\s*- '?(banner|button|checkbox|columnheader|combobox|dialog|group|heading|link|main|navigation|radio|region|searchbox|tab|table|textbox)(?: "((?:[^"\\]|\\.)*)")?/;

export function placeOf(name: string, kind: "png" | "txt"): string {
  return fileURLToPath(new URL(`../../docs/images/${name}.${kind}`, import.meta.url));
}

/**
 * The headings, columns and controls of a page by their accessible names, each once, without what differs from run to
 * run: ids, numbers, times, how a step stands, and which plans the audit tells of.
 */
export async function outline(page: Page): Promise<string> {
  const lines = new Set<string>();
  // Of the steps of a graph there is a button for each that is near what is looked at.
  let graph = Number.POSITIVE_INFINITY;
  for (const line of (await page.locator("body").ariaSnapshot()).split("\n")) {
    const depth = line.search(/\S/);
    if (depth <= graph) graph = Number.POSITIVE_INFINITY;
    const [, role, name] = SAID.exec(line) ?? [];
    if (role === undefined || depth > graph) continue;
    if (role === "group" && / as a graph/.test(name ?? "")) graph = depth;
    const said = steady(name ?? "");
    // Texts that are only an id or a number change with the data.
    if (!/^(?:ID|#|TIME| )+$/.test(said)) lines.add(`${role} ${said}`.trim());
  }
  return `${[...lines].toSorted().join("\n")}\n`;
}

function steady(name: string): string {
  return (name.split(/, |: /)[0] ?? "")
    .replace(/^(Started plan) .*/, "$1 NAME")
    .replaceAll(/(?=[0-9A-Za-z-]*\d)[0-9A-Za-z-]{6,}/g, "ID")
    .replaceAll(/\d[\d.,:]*/g, "#")
    .replaceAll(/(?:< )?(?:# ?(?:d|h|min|ms|m|s)\b ?)+/g, "TIME ")
    .trim();
}
