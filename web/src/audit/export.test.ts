import { expect, test } from "vitest";
import { auditCsv, auditLines } from "./export";

const row = {
  at: "2026-11-21T03:12:07.123Z",
  actor: "ana",
  action: "PAUSE",
  runId: "r1",
  signalId: "",
  outcome: "ACCEPTED",
  code: "",
  reason: '=1+1, "now"',
  requestId: "q",
  detail: "",
};

test("the file says its filter, and a cell is never a formula", () => {
  expect(auditCsv({ actor: "ana" }, [{ no: 7, id: "x", row }])).toBe(
    [
      '"# filter {""actor"":""ana""}"',
      "no,at,actor,action,runId,signalId,outcome,code,reason,requestId,detail",
      `7,2026-11-21T03:12:07.123Z,ana,PAUSE,r1,,ACCEPTED,,"'=1+1, ""now""",q,`,
      "",
    ].join("\r\n"),
  );
});

test("a row that was taken away keeps its number", () => {
  expect(auditLines({}, [{ no: 8, id: "y", row: null }])).toBe('{"filter":{}}\n{"no":8,"id":"y"}\n');
});
