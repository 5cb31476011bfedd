import { defineConfig } from "@playwright/test";
import config from "./playwright.config";

// Speeds that only mean something on a quiet machine; `make bench` runs them one by one.
// A trace copies the page at every step of a test, which would be counted as the page's own work.
export default defineConfig(config, {
  testMatch: "**/*.bench.ts",
  workers: 1,
  outputDir: "e2e/out/bench",
  use: { trace: "off" },
});
