import { expect, it } from "vitest";
import { sentenceOf } from "./sentence";

const did = (action: string, detail: object, outcome = "ACCEPTED", code = "", reason = "") =>
  sentenceOf({ action, outcome, code, reason, detail: JSON.stringify(detail) }, "utc");

it("says what an accepted record did", () => {
  for (const [action, detail, text] of [
    [
      "BREAK_GLASS",
      { role: "ADMIN", minutes: 15, until: "2026-11-27T19:03:08Z" },
      "Took the Admin role by break-glass for 15 minutes, until 2026-11-27 19:03:08",
    ],
    [
      "END_BREAK_GLASS",
      { role: "ADMIN", until: "2026-11-27T19:03:08Z" },
      "Gave up the Admin role of break-glass, which would have ended at 2026-11-27 19:03:08",
    ],
    [
      "START",
      { planId: "nightly", planVersion: "1.0", projectId: "shop", environmentId: "dev", approvals: 2 },
      "Started plan nightly@1.0 in shop / dev; it waits for 2 approvals",
    ],
    ["APPROVE", { decision: "REJECT" }, "Rejected the run"],
    [
      "COMPLETE_MANUAL_STEP",
      { stepId: "release", outcome: "SUCCEEDED" },
      "Completed the manual step release as Succeeded",
    ],
    ["FREEZE_TENANT", { frozen: false }, "Unfroze the tenant: runs start again"],
    ["SET_SHARE_LINKS", { hours: 0 }, "Forbade share links; existing links stop working at once"],
    [
      "LINK_ARTIFACT",
      { uri: "artifact:acme/r/load/1/1/rows.csv" },
      "Made a link for 5 minutes of the artifact rows.csv",
    ],
    ["PAUSE", {}, "Sent “Pause” to the run"],
    ["RETRY_STEP", { stepId: "load" }, "Sent “Retry step: load” to the run"],
    ["NOTE_RUN", {}, "Added a note to the run"],
  ] as const) {
    expect(did(action, detail).text.replace(" UTC", "")).toBe(text);
  }
});

it("names what was acknowledged, silenced and drained, and why a record of a plan without a place is no link", () => {
  const until = "2026-11-28T10:00:00Z";
  for (const [action, detail, text] of [
    ["ACKNOWLEDGE_ALERT", { alert: "a1", code: "RUN_LATE", note: "on it" }, "Acknowledged the alert RUN_LATE"],
    [
      "SILENCE_ALERTS",
      { code: "", projectId: "shop", planId: "longrun", until },
      "Silenced the alerts of plan longrun until 2026-11-28 10:00:00",
    ],
    [
      "SILENCE_ALERTS",
      { code: "RUN_LATE", projectId: "", planId: "", until },
      "Silenced the alerts with the code RUN_LATE until 2026-11-28 10:00:00",
    ],
    ["END_SILENCE", { silence: "s1", projectId: "shop" }, "Ended the silence of the alerts of project shop"],
    [
      "DRAIN_WORKER",
      { account: "dvt", worker: "engine/vm/28456" },
      "Drained the worker engine/vm/28456: it begins no further steps",
    ],
  ] as const) {
    const sentence = did(action, detail);
    expect(sentence.text.replace(" UTC", "")).toBe(text);
    expect(sentence.to).toBeNull();
  }
  expect(did("ANNOTATE", {}, "DENIED", "FORBIDDEN").text).toBe(
    "Asked for “Tag, note, acknowledge or silence”; refused: no permission",
  );
  expect(did("CREATE_TOKEN", { principal: "dev-admin", grants: [] }, "ACCEPTED", "", "token ci-load").text).toMatch(
    /^Created the token ci-load:/,
  );
});

it("says what happened to holds, erasures, the retention and destinations", () => {
  for (const [action, detail, said] of [
    ["PLACE_HOLD", { kind: "PLAN", subject: "nightly" }, "Placed a legal hold on all runs of plan nightly"],
    ["LIFT_HOLD", { holdId: "h1" }, "Lifted a legal hold"],
    ["REQUEST_ERASURE", { kind: "SUBJECT" }, "Asked for the erasure of a person; another person has to confirm it"],
    ["CONFIRM_ERASURE", { kind: "TENANT" }, "Confirmed the erasure of the tenant"],
    ["SET_RETENTION", { retentionVersion: 3, policyVersion: 9 }, "Changed the retention to version 3"],
    ["RETAIN", { archived: 1, deleted: 20 }, "Applied the retention: 1 run archived, 20 runs deleted"],
    ["DISABLE_DESTINATION", { destination: "crm" }, "Switched off the destination crm"],
    ["CLOSE_INCIDENT", {}, "Closed an incident"],
  ] as const)
    expect(did(action, detail).text).toBe(said);
  expect(did("PLACE_HOLD", { kind: "RUN", subject: "r1" }).to).toEqual({ kind: "retention" });
});

it("names the token that was created or revoked, and what it may do", () => {
  const token = {
    principal: "dev-admin",
    expiresAt: "2026-11-27T19:03:08Z",
    grants: [{ role: "VIEWER", project: "shop", environment: "*" }],
  };
  expect(did("CREATE_TOKEN", token, "ACCEPTED", "", "ci-load").text).toMatch(
    /^Created the token ci-load: Viewer in shop.*, acts as dev-admin, until 2026-11-27 19:03:08/,
  );
  expect(did("REVOKE_TOKEN", { name: "ci-load" }).text).toBe("Revoked the token ci-load: requests with it are refused");
});

it("tells a revocation of share links from a permission", () => {
  expect(did("SET_SHARE_LINKS", { hours: 24, hoursBefore: 24 }).text).toBe(
    "Revoked all share links; new ones of 24 hours can be made",
  );
  expect(did("SET_SHARE_LINKS", { hours: 24, hoursBefore: 0 }).text).toContain("Permitted share links of 24 hours");
});

it("tells what a change of the policy changed, and leads to it", () => {
  const changed = ["- approvals needed in shop/prod: 2", "+ approvals needed in shop/prod: 5"];
  expect(did("SET_POLICY", { policyVersion: 3, changed })).toEqual({
    text: "Changed the policy to version 3",
    lines: changed,
    to: { kind: "policy" },
  });
});

it("says what was asked in vain, why, and how often", () => {
  expect(did("READ", { repeatedBefore: 2 }, "DENIED", "NOT_FOUND")).toEqual({
    text: "Asked to see a run; refused: no such run exists, or they may not see it. 2 more refusals like it in the minute before",
    lines: [],
    to: null,
  });
  expect(did("RETRY_STEP", { stepId: "load" }, "REJECTED", "STRANGE").text).toBe(
    "Asked for “Retry step: load”; refused",
  );
});

it("does not call an alert that dvt raised a refused request", () => {
  expect(did("SWEEP", {}, "ESCALATED", "PAUSE_DRAIN_TIMEOUT").text).toBe("Raised the alert PAUSE_DRAIN_TIMEOUT");
});

it("says what the breaker of starts did, which nobody asked for and nobody refused", () => {
  expect(did("BREAKER", {}, "OPENED", "ENGINE_DEGRADED").text).toBe(
    "Refuses new runs until the engine starts runs in time again",
  );
  expect(did("BREAKER", {}, "CLOSED", "ENGINE_DEGRADED").text).toBe("Accepts new runs again");
});
