// Steps that end when a test says so, and a page whose time does: neither asks how fast the machine is.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, type Page } from "@playwright/test";
import type { PlanStep } from "./page";

let folder: string | null = null;
let made = 0;

function place(): string {
  if (folder === null) {
    const own = mkdtempSync(join(tmpdir(), "dvt-e2e-held-"));
    process.once("exit", () => rmSync(own, { recursive: true, force: true }));
    folder = own;
  }
  made += 1;
  return join(folder, String(made));
}

/** A step that runs until it is released. */
export function held(stepId: string, dependsOn: string[] = []): { step: PlanStep; release: () => void } {
  const file = place();
  return {
    step: {
      stepId,
      type: "COMMAND",
      dependsOn,
      timeout: "10m",
      inputs: { argv: ["sh", "-c", 'until [ -e "$1" ]; do sleep 0.2; done', "sh", file] },
    },
    release: () => writeFileSync(file, ""),
  };
}

/** From now on the page's own time stands but for `takes`. Its clock is installed before it opens. */
export async function stand(page: Page): Promise<void> {
  const now = await page.evaluate(() => Date.now());
  // A clock is never put back: the page may be a little further when it hears of it.
  await page.clock.pauseAt(now + 5_000);
}

/**
 * How much of the page's own time goes by until that is so, in milliseconds: what the machine takes for it is not
 * counted.
 */
export async function takes(
  page: Page,
  so: () => Promise<boolean>,
  { step, every } = { step: 250, every: 500 },
): Promise<number> {
  let spent = 0;
  await expect
    .poll(
      async () => {
        if (await so()) return true;
        await page.clock.runFor(step);
        spent += step;
        return so();
      },
      { intervals: [every], timeout: 120_000 },
    )
    .toBe(true);
  return spent;
}
