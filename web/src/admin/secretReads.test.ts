import { expect, it } from "vitest";
import { secretReadsCsv } from "./secretReads";

it("writes each read as a line, with no cell that a spreadsheet evaluates", () => {
  const read = {
    at: "2026-11-28T03:00:00Z",
    runId: "r1",
    stepId: "load",
    logicalAttemptId: 1,
    engineAttemptId: 2,
    account: "steps-1",
    worker: "host/7",
    provider: "vault",
    key: "=db#password",
    version: null,
    answeredVersion: "3",
    as: "env:TOKEN",
    cached: true,
    code: null,
  };
  expect(secretReadsCsv([read]).split("\r\n")).toEqual([
    "at,provider,key,version,answeredVersion,runId,stepId,logicalAttemptId,engineAttemptId,account,worker,as,cached,code",
    "2026-11-28T03:00:00Z,vault,'=db#password,,3,r1,load,1,2,steps-1,host/7,env:TOKEN,true,",
    "",
  ]);
});
