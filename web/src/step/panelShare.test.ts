import { expect, it } from "vitest";
import { LEAST, MOST, within } from "./panelShare";

it("keeps the share of the panel within its limits", () => {
  expect([within(-5), within(200), within(41.6)]).toEqual([LEAST, MOST, 42]);
});
