import { describe, expect, it } from "vitest";
import { formatQuery, momentOf, parseQuery, toFilter, writeMoment } from "./query";

const NOW = Date.parse("2026-11-22T03:12:07Z");

describe("the query of the runs page", () => {
  it("is parsed from text and written as the same text", () => {
    const text = "status:PAUSED,FAILED project:shop env:prod plan:nightly by:me from:-24h sort:oldest 7f3a";
    const { query, unknown } = parseQuery(text);
    expect(query).toEqual({
      status: ["PAUSED", "FAILED"],
      project: "shop",
      env: "prod",
      plan: "nightly",
      by: "me",
      from: "-24h",
      sort: "oldest",
      q: "7f3a",
    });
    expect(unknown).toEqual([]);
    expect(formatQuery(query)).toBe(text);
  });

  it("accepts any case of a status, and lists unknown words", () => {
    expect(parseQuery("status:failed,broken foo:bar from:soon")).toEqual({
      query: { status: ["FAILED"] },
      unknown: ["status:failed,broken", "foo:bar", "from:soon"],
    });
  });

  it("knows moments before now, days and minutes", () => {
    expect(momentOf("-24h", NOW, "utc")).toBe(NOW - 86_400_000);
    expect(momentOf("today", NOW, "utc")).toBe(Date.parse("2026-11-22T00:00:00Z"));
    expect(momentOf("2026-11-21", NOW, "utc")).toBe(Date.parse("2026-11-21T00:00:00Z"));
    expect(momentOf(writeMoment(NOW), NOW, "utc")).toBe(Date.parse("2026-11-22T03:12:00Z"));
    expect(momentOf("2026-13-77", NOW, "utc")).toBeNull();
  });

  it("finds runs that await an operator, alone and among the failed ones, and runs with a tag", () => {
    expect(parseQuery("status:awaiting tag:team:data").query).toEqual({ status: ["AWAITING"], tag: "team:data" });
    expect(toFilter({ status: ["AWAITING"] }, NOW, "utc")).toEqual({ awaitingOperator: true });
    expect(toFilter({ status: ["FAILED", "AWAITING"], tag: "odd" }, NOW, "utc")).toEqual({
      statuses: ["FAILED"],
      awaitingOperator: true,
      tag: "odd",
    });
  });

  it("becomes a filter of the API", () => {
    expect(toFilter({ status: ["FAILED"], env: "prod", by: "ana", q: "x", from: "today" }, NOW, "utc")).toEqual({
      statuses: ["FAILED"],
      environmentId: "prod",
      triggeredBy: "ana",
      text: "x",
      createdFrom: "2026-11-22T00:00:00.000Z",
    });
  });
});
