import base from "./playwright.config";

// `make docs/screenshots`: the pictures of the guides, from the real interface on a dvt of its own.
export default {
  ...base,
  testDir: "docs",
  workers: 1,
  use: { ...base.use, viewport: { width: 1280, height: 800 } },
};
