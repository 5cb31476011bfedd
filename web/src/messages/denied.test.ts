import { expect, it } from "vitest";
import { m } from ".";

it.each([
  ["START", "You need the Operator role to start a run."],
  ["FREEZE_TENANT", "You need the Admin or the SRE role to freeze the tenant."],
  ["READ_AUDIT", "You need the Admin or the SRE role to read the audit log."],
  ["CANCEL", "You need the Engineer role to cancel a run."],
] as const)("names the role that has %s by the server's default policy", (action, text) => {
  expect(m.denied.notYours(action)).toBe(text);
});
