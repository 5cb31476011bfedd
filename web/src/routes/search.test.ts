import { describe, expect, it } from "vitest";
import { auditSearch, parseSearch, readRunsSearch, runSearch, runsSearch, stringifySearch } from "./search";

describe("the address", () => {
  it("39 accepts its own output, however often it is checked", () => {
    const address = "?status=RUNNING,FAILED&env=prod&from=-24h&sort=oldest";
    const once = runsSearch.parse(parseSearch(address));
    expect(once).toMatchObject({ status: ["RUNNING", "FAILED"], env: "prod", from: "-24h", sort: "oldest" });
    expect(runsSearch.parse(once)).toEqual(once);
    expect(stringifySearch(once)).toBe(address);
    const run = runSearch.parse(parseSearch("?step=a&attempt=2&show=FAILED"));
    expect(run).toMatchObject({ attempt: 2, show: ["FAILED"] });
    expect(runSearch.parse(run)).toEqual(run);
  });

  it("reads a status in any case, and names the parameters of runs that it does not understand", () => {
    expect(readRunsSearch({ status: "failed,Running" })).toEqual({ status: ["RUNNING", "FAILED"] });
    const once = readRunsSearch({ status: "BROKEN", env: "prod", state: "FAILED", tz: "utc" });
    expect(once).toEqual({ env: "prod", unread: "status=BROKEN state=FAILED" });
    expect(readRunsSearch(once)).toEqual(once);
    expect(readRunsSearch({ status: ["FAILED"], sort: "newest" })).toEqual({ status: ["FAILED"], sort: "newest" });
    expect(readRunsSearch({ status: "failed,late" }), "one of two").toMatchObject({ unread: "status=failed,late" });
  });

  it("ignores unknown parameters", () => {
    expect(runsSearch.parse({ status: "BROKEN", from: "soon", sort: 7, env: "" })).toEqual({});
    expect(auditSearch.parse({ from: "soon", to: "2026-99-99" })).toEqual({});
    expect(auditSearch.parse({ from: "2026-02-28" })).toEqual({ from: "2026-02-28" });
  });
});
