import { expect, type Page } from "@playwright/test";

/** How long it took from the click to the dialog, and to its preview, each time, in milliseconds. */
export async function openDialogs(page: Page, times: number): Promise<{ opened: number[]; previewed: number[] }> {
  const pause = page.getByRole("button", { name: "Pause…" });
  const opened: number[] = [];
  const previewed: number[] = [];
  for (let i = 0; i < times; i++) {
    await expect(pause).not.toHaveAttribute("aria-disabled", "true");
    const [dialog, preview] = await page.evaluate(
      () =>
        new Promise<[number, number]>((resolve, reject) => {
          const button = [...document.querySelectorAll("button")].find((other) =>
            other.textContent?.startsWith("Pause…"),
          );
          const began = performance.now();
          let shown = 0;
          const observer = new MutationObserver(() => {
            if (shown === 0 && document.querySelector("dialog[open]")) shown = performance.now() - began;
            if (!document.querySelector("dialog[open] [data-testid=preview]")) return;
            observer.disconnect();
            resolve([shown, performance.now() - began]);
          });
          observer.observe(document.body, { childList: true, subtree: true, attributes: true });
          setTimeout(() => reject(new Error("no preview")), 10_000);
          button?.click();
        }),
    );
    opened.push(dialog);
    previewed.push(preview);
    await page.keyboard.press("Escape");
  }
  return { opened, previewed };
}
