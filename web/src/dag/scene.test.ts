import { expect, it } from "vitest";
import { LINE, linesOf } from "./scene";

it("breaks a label behind the word nearest to its middle, and loses nothing", () => {
  expect(linesOf("stg_orders")).toEqual(["stg_orders"]);
  expect(linesOf("Orders belong to customers")).toEqual(["Orders belong", "to customers"]);
  expect(linesOf("int_order_items_by_customer")).toEqual(["int_order_items_", "by_customer"]);
  expect(linesOf("x".repeat(2 * LINE))).toEqual(["x".repeat(LINE), "x".repeat(LINE)]);
});
