// `make docs/screenshots`: takes every picture, and writes beside it what the page has to offer.
import { writeFileSync } from "node:fs";
import { test } from "../e2e/page";
import { outline, placeOf } from "./outline";
import { pictures } from "./pictures";

// The pictures show the sample run too: the test that compares them has it as well.
test.use({ alone: true });

pictures(async (page, name) => {
  await page.screenshot({ path: placeOf(name, "png"), scale: "css" });
  writeFileSync(placeOf(name, "txt"), await outline(page));
}, true);
