import { expect, it } from "vitest";
import { screen, show } from "../testing/render";
import { becameOf, type DecidedRun, LastCompletion } from "./Decided";

const EVA = { principal: "eva", decision: "APPROVE" as const, reason: null, at: "2026-11-21T03:00:00Z" };
const open: DecidedRun["approval"] = { required: 2, expiresAt: "2026-11-22T03:00:00Z", decisions: [EVA] };

it("says what became of a run after the viewer's decision", () => {
  expect(becameOf({ approval: open })).toBe("1 of 2 approvals; 1 more person must approve");
  const both = { ...open, expiresAt: null, decisions: [EVA, { ...EVA, principal: "ben" }] };
  expect(becameOf({ approval: both })).toBe("2 of 2 approvals: the run starts");
  const rejected = { ...EVA, principal: "ben", decision: "REJECT" as const };
  expect(becameOf({ approval: { ...open, expiresAt: null, decisions: [EVA, rejected] } })).toBe(
    "rejected by ben: the run is cancelled",
  );
  expect(becameOf({ approval: { ...open, expiresAt: null } })).toBe("the run ended before it was approved");
});

it("says what happens after a manual step was completed", async () => {
  await show(<LastCompletion stepId="release" outcome="SUCCEEDED" />);
  expect(screen.getByRole("status").textContent).toBe(
    "release: completed as succeeded. The steps that wait for it start now.",
  );
});
