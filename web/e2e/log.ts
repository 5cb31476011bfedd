// A step that prints a million lines at once, and a page that opens them.
import { expect, type Page } from "@playwright/test";
import { type PlanStep, status } from "./page";

export const LINES = 1_000_000;
export const NEEDLE = "the needle is here";
export const NEEDLES = 3;
const ERROR = "boom: no such table, an error";

/** Lines at once: the needle first, in the middle and before the end, the error last. */
export function longLog(lines = LINES): PlanStep {
  const half = Math.floor((lines - NEEDLES - 1) / 2);
  const needle = `echo '${NEEDLE}'`;
  const script = `${needle}; seq 1 ${half}; ${needle}; seq 1 ${half}; ${needle}; echo '${ERROR}' >&2; exit 3`;
  const retry = { maxAttempts: 1, initialBackoffMs: 100, backoffMultiplier: 1, maxBackoffMs: 100 };
  return { stepId: "print", type: "COMMAND", inputs: { argv: ["sh", "-c", script] }, retry };
}

/** From the key that opens the log to the line of the error, in milliseconds. */
export async function opened(page: Page, address: string): Promise<number> {
  await page.goto(address);
  await expect(status(page)).toHaveText("Failed, waiting");
  const asked = Date.now();
  await page.keyboard.press("l");
  await expect(page.getByRole("region", { name: "Log" }).getByText(ERROR, { exact: true })).toBeVisible();
  return Date.now() - asked;
}

/** From the last letter that was typed to all that was found, in milliseconds. */
export async function sought(page: Page): Promise<number> {
  await page.keyboard.press("Control+f");
  await page.keyboard.type("needle");
  const asked = Date.now();
  await expect(page.getByTestId("matches")).toHaveText(`1 of ${NEEDLES}`);
  await expect(page.getByRole("region", { name: "Log" }).getByText(NEEDLE).first()).toBeVisible();
  return Date.now() - asked;
}
