import { describe, expect, it } from "vitest";
import { m } from "../messages";
import { failingOf } from "./dbt";

function nodes(byStatus: Record<string, number>, first?: { resourceType: string; compiledSql: string | null }) {
  return {
    byStatus: Object.entries(byStatus).map(([status, count]) => ({ status, count })),
    edges: first ? [{ node: { uniqueId: `${first.resourceType}.shop.orders`, name: "orders", ...first } }] : [],
  };
}

function words(of: ReturnType<typeof nodes> | null): string | null {
  const failing = failingOf(of);
  return failing && m.run.dbtFailed(failing.kind, failing.failed, failing.skipped);
}

describe("the failing nodes of dbt", () => {
  it("counts failed and skipped nodes, with dbt's name of their type", () => {
    expect(
      words(nodes({ success: 12, skipped: 4, error: 3 }, { resourceType: "model", compiledSql: "select 1" })),
    ).toBe("3 dbt models failed, 4 skipped");
    expect(words(nodes({ pass: 2, fail: 1 }, { resourceType: "unit_test", compiledSql: null }))).toBe(
      "1 dbt unit test failed",
    );
  });

  it("adds up all words for a failure, and leads to each of them", () => {
    expect(
      failingOf(nodes({ error: 3, "runtime error": 1, warn: 5 }, { resourceType: "model", compiledSql: null })),
    ).toMatchObject({ failed: 4, statuses: ["error", "runtime error"] });
  });

  it("has SQL only where dbt came so far", () => {
    expect(failingOf(nodes({ error: 1 }, { resourceType: "model", compiledSql: "select 1" }))?.sql).toEqual({
      uniqueId: "model.shop.orders",
      name: "orders",
    });
    expect(failingOf(nodes({ error: 1 }, { resourceType: "model", compiledSql: null }))?.sql).toBeNull();
  });

  it("says nothing when no node failed, and when there are none", () => {
    expect(words(nodes({ success: 1 }))).toBeNull();
    expect(words(null)).toBeNull();
  });
});
