// The pictures of the guides show what there is: the same pages, by the names of what they offer.
import { existsSync, readFileSync } from "node:fs";
import { outline, placeOf } from "../docs/outline";
import { pictures } from "../docs/pictures";
import { expect, test } from "./page";

test.use({ alone: true, viewport: { width: 1280, height: 800 } });

pictures(async (page, name) => {
  const kept = placeOf(name, "txt");
  await expect
    .poll(() => outline(page), { message: `${name} is no longer what the guides show: run make docs/screenshots` })
    .toBe(existsSync(kept) ? readFileSync(kept, "utf8") : "");
}, false);
