import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { auditCsv, auditLines } from "./export";

const row = {
  at: "2026-11-21T03:12:07.123Z",
  tenantId: "acme",
  actor: "ana",
  action: "PAUSE",
  runId: "r1",
  signalId: "",
  outcome: "ACCEPTED",
  code: "",
  reason: '=1+1, "now"',
  requestId: "q",
  detail: "",
  format: 2,
  credential: "account",
  address: "192.0.2.7",
  via: "http",
  object: "",
  digest: "",
};

test("the file has the columns of the CLI and no other line, and a cell is never a formula", () => {
  const cli = /"(no id at [^"]*)"/.exec(readFileSync("../cmd/dvt/audit.go", "utf8"))?.[1]?.split(" ").join(",");
  expect(auditCsv([{ no: 7, id: "x", hash: "ab", row }])).toBe(
    [
      cli,
      `7,x,2026-11-21T03:12:07.123Z,ana,PAUSE,r1,,ACCEPTED,,"'=1+1, ""now""",q,,ab,account,192.0.2.7,http,,`,
      "",
    ].join("\r\n"),
  );
});

test("a removed record keeps its number and its hash", () => {
  const removed = { no: 8, id: "y", hash: "cd", row: null };
  expect(auditCsv([removed]).split("\r\n")[1]).toBe("8,y,,,,,,,REMOVED,,,,cd,,,,,");
  expect(auditLines([removed])).toBe('{"no":8,"id":"y","hash":"cd","row":null}\n');
});
