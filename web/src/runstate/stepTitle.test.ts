import { expect, it } from "vitest";
import { header, step, store } from "../testing/fixtures";
import { titleOf } from "./stepTitle";

it("names a step by its name, and by its id too where another step has the same name", () => {
  const run = store(header(), {}, [
    step("load", { name: "Load" }),
    step("test-1", { name: "Test" }),
    step("test-2", { name: "Test" }),
    step("bare", { name: null }),
  ]);
  expect(["load", "test-1", "bare", "unknown"].map((id) => titleOf(run, id))).toEqual([
    "Load",
    "Test (test-1)",
    "bare",
    "unknown",
  ]);
});
