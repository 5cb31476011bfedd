import { expect, it } from "vitest";
import { decisionOf } from "./decision";

it("names the person who sent a signal, not the part of dvt that wrote it", () => {
  const payload = { signalType: "RETRY_STEP", stepId: "load", actor: "ana", reason: "the file is there" };
  expect(decisionOf({ payload, emittedBy: "authz" })).toEqual({
    what: "RETRY_STEP load",
    who: "ana",
    why: "the file is there",
  });
  expect(decisionOf({ payload: { principal: "dora", reason: "" }, emittedBy: "authz" })).toEqual({
    what: null,
    who: "dora",
    why: null,
  });
  expect(decisionOf({ payload: null, emittedBy: "engine" })).toEqual({ what: null, who: "engine", why: null });
});
