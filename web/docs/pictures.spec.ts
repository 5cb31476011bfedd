// `make docs/screenshots`: takes every picture, and writes beside it what the page has to offer.
import { writeFileSync } from "node:fs";
import { outline, placeOf } from "./outline";
import { pictures } from "./pictures";

pictures(async (page, name) => {
  await page.screenshot({ path: placeOf(name, "png"), scale: "css" });
  writeFileSync(placeOf(name, "txt"), await outline(page));
}, true);
