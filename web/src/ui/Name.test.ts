import { expect, it } from "vitest";
import { endOf } from "./Name";

const end = (text: string): string => text.slice(endOf(text));

it("keeps words in parentheses whole, else the last letters of a long name", () => {
  expect(end("Build customers (stg 1)")).toBe(" (stg 1)");
  expect(end("Build orders (int 3)")).toBe(" (int 3)");
  expect(end("Refresh of the warehouse (all of the sources)")).toBe("e sources)");
  expect(end("stg_customers_of_the_north")).toBe("_the_north");
  expect(end("nightly")).toBe("");
});
