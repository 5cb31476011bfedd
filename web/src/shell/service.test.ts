import { describe, expect, it } from "vitest";
import { m } from "../messages";
import { notices, type ServiceState } from "./service";

const calm: ServiceState = {
  mode: "NORMAL",
  modeReason: "lifted",
  modeSince: "2026-11-21T03:12:07Z",
  frozen: false,
  frozenReason: null,
  frozenSince: null,
  degraded: false,
};

describe("the banner", () => {
  it("is silent while all is as ever, and before anything is known", () => {
    expect([notices(null), notices(calm)]).toEqual([[], []]);
  });

  it("says mode, freeze and slowness with reason, since and what still works", () => {
    const all = notices({
      ...calm,
      mode: "READ_ONLY",
      modeReason: "restore",
      frozen: true,
      frozenReason: "leak",
      frozenSince: "2026-11-21T03:12:08Z",
      degraded: true,
    });
    expect(all.map(({ kind, reason, since }) => [kind, reason, since])).toEqual([
      ["READ_ONLY", "restore", Date.UTC(2026, 10, 21, 3, 12, 7)],
      ["FROZEN", "leak", Date.UTC(2026, 10, 21, 3, 12, 8)],
      ["DEGRADED", null, null],
    ]);
    for (const { kind, text, still } of all) expect({ text, still }).toEqual(m.serviceBanner[kind]);
  });

  it("has words for each mode", () => {
    expect(notices({ ...calm, mode: "DRAINED" })[0]?.text).toContain("drained");
  });
});
