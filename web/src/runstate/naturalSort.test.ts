import { expect, it } from "vitest";
import { naturalSort } from "./naturalSort";

const step = (stepId: string, ...dependsOn: string[]) => ({ stepId, dependsOn });

it("sorts steps without an order by their numbers", () => {
  expect(naturalSort(["l1", "l10", "l2", "stg_10_b", "stg_9_a"].map((id) => step(id)))).toEqual([
    "l1",
    "l2",
    "l10",
    "stg_9_a",
    "stg_10_b",
  ]);
  expect(naturalSort([step("l1"), step("l10", "l2"), step("l2", "l1")])).toEqual(["l1", "l2", "l10"]);
  // What runs first comes first, whatever its id.
  expect(naturalSort([step("a1", "z"), step("a10", "z"), step("a2", "z"), step("z")])).toEqual([
    "z",
    "a1",
    "a2",
    "a10",
  ]);
});

it("leaves the order that a plan has", () => {
  expect(naturalSort(["l2", "l10", "l1"].map((id) => step(id)))).toEqual(["l2", "l10", "l1"]);
  expect(naturalSort([step("l1"), step("l10", "l1"), step("l2", "l10")])).toEqual(["l1", "l10", "l2"]);
});
