import { expect, it } from "vitest";
import type { PolicyFieldsFragment } from "../api/gen/graphql";
import { byPrincipal, putBackInput } from "./PolicyPanel";

const grant = (principal: string, breakGlass: boolean) => ({
  principal,
  role: "ADMIN",
  projectId: "*",
  environmentId: "*",
  expiresAt: breakGlass ? "2026-11-21T03:30:00Z" : null,
  breakGlass,
});
const policy = (version: number, grants: PolicyFieldsFragment["grants"]): PolicyFieldsFragment => ({
  version,
  defaultRules: true,
  rules: [],
  grants,
  sod: { approve: true, completeManual: true, completeManualInEveryPlan: false },
  approvals: [],
  breakGlass: [],
  sandbox: [],
  actor: "ana",
  reason: "because",
  at: "2026-11-21T03:00:00Z",
});

it("puts an old version back without ending or repeating a break-glass", () => {
  const old = policy(2, [grant("ana", false), grant("old", true)]);
  const now = policy(4, [grant("ana", false), grant("zoe", false), grant("ben", true)]);
  expect(putBackInput(old, now).grants).toEqual([grant("ana", false), grant("ben", true)]);
});

it("lists roles by break-glass first, then by person, and what is over last", () => {
  const grants = [grant("person-10", false), grant("zoe", true), grant("person-9", false)];
  const at = (now: string) => grants.toSorted(byPrincipal(Date.parse(now))).map(({ principal }) => principal);
  expect(at("2026-11-21T03:29:59Z")).toEqual(["zoe", "person-9", "person-10"]);
  expect(at("2026-11-21T03:30:00Z")).toEqual(["person-9", "person-10", "zoe"]);
});
