import { expect, it } from "vitest";
import { manifestOf, nodeName } from "./manifest";

const DOCUMENT = {
  nodes: {
    "model.shop.stg_orders": {
      depends_on: { nodes: ["source.shop.raw.orders"] },
      config: { materialized: "view" },
      original_file_path: "models/stg_orders.sql",
    },
    "model.shop.orders": { depends_on: { nodes: ["model.shop.stg_orders"] }, config: { materialized: "table" } },
    "test.shop.unique_orders.abc": { depends_on: { nodes: ["model.shop.orders"] }, config: { materialized: "test" } },
    "seed.shop.days": { config: {} },
  },
};

it("says what a model reads, who reads it, how it is stored and where its file is", () => {
  const manifest = manifestOf(DOCUMENT);
  expect(manifest.get("model.shop.stg_orders")).toEqual({
    needs: ["source.shop.raw.orders"],
    usedBy: ["model.shop.orders"],
    tests: 0,
    materialized: "view",
    file: "models/stg_orders.sql",
  });
  expect(manifest.get("model.shop.orders")).toMatchObject({ usedBy: [], tests: 1, materialized: "table" });
  expect(manifest.get("test.shop.unique_orders.abc")?.materialized).toBeNull();
  expect(manifest.get("seed.shop.days")?.needs).toEqual([]);
});

it("reads nothing from a document that it does not understand", () => {
  for (const document of [null, "text", {}, { nodes: 1 }, { nodes: { a: null } }])
    expect([...manifestOf(document).values()].flatMap(({ needs }) => needs)).toEqual([]);
});

it("names a node by its id", () => {
  expect(["model.shop.orders", "test.shop.unique_orders.abc", "source.shop.raw.orders", "odd"].map(nodeName)).toEqual([
    "orders",
    "unique_orders",
    "raw.orders",
    "odd",
  ]);
});
