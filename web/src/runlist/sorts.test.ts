import { expect, it } from "vitest";
import { formatQuery, parseQuery } from "./query";
import { obstacleOf, orderOf } from "./sorts";

it("asks the server for the order of the query", () => {
  expect(orderOf({})).toBe("CREATED_DESC");
  expect(orderOf({ sort: "longest" })).toBe("DURATION_DESC");
  expect(orderOf({ sort: "left" })).toBe("TIME_LEFT_ASC");
});

it("knows the filters that the server refuses with an order", () => {
  expect(obstacleOf("longest", {})).toBe("plan");
  expect(obstacleOf("longest", { plan: "nightly" })).toBeNull();
  expect(obstacleOf("ended", { by: "me" })).toBe("filters");
  expect(obstacleOf("ended", { plan: "nightly" })).toBeNull();
  expect(obstacleOf("left", { by: "me", from: "-24h" })).toBeNull();
  expect(obstacleOf("left", { tag: "late" })).toBe("filters");
  expect(obstacleOf("oldest", { tag: "late", q: "x", by: "me" })).toBeNull();
});

it("writes order and columns into the query, so that a saved view and an address keep them", () => {
  const { query, unknown } = parseQuery("plan:nightly sort:longest cols:tags,took");
  expect([query, unknown]).toEqual([{ plan: "nightly", sort: "longest", cols: ["took", "tags"] }, []]);
  expect(formatQuery(query)).toBe("plan:nightly sort:longest cols:took,tags");
  expect(parseQuery("sort:status cols:colour").unknown).toEqual(["sort:status", "cols:colour"]);
  expect(parseQuery("sort:newest").query).toEqual({});
});
