import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { defineConfig } from "@playwright/test";

/** A Chromium of this machine, else Playwright's own. */
function chromium(): string | undefined {
  const named = process.env["DVT_CHROMIUM"];
  if (named) return named;
  const folders = ["/usr/bin", ...(process.env["PATH"] ?? "").split(delimiter)];
  return ["chromium-headless-shell", "chromium"]
    .flatMap((name) => folders.map((folder) => join(folder, name)))
    .find((path) => existsSync(path));
}

const executablePath = chromium();

export default defineConfig({
  testDir: "e2e",
  outputDir: "e2e/out/results",
  // The tests of a file follow each other; each worker has a dvt of its own.
  workers: 2,
  fullyParallel: false,
  // Bounds for a page that hangs. They are no promise: a machine that is busy with other suites takes ten times as long.
  timeout: 600_000,
  expect: { timeout: 60_000 },
  // `make test` repeats what failed when no other suite runs (ADR 37).
  retries: 0,
  reporter: [["list"]],
  use: {
    viewport: { width: 1440, height: 900 },
    // Recording each test took a fifth of its CPU time, so only `--trace on` records, as the repetition of a failed test
    // does.
    trace: "off",
    screenshot: "only-on-failure",
    launchOptions: {
      ...(executablePath ? { executablePath } : {}),
      args: [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--no-first-run",
        // Site isolation keeps a process ready for the next site, and starts another one whenever two contexts of a test
        // take turns. All pages of the tests belong to one site.
        "--disable-site-isolation-trials",
      ],
    },
  },
});
