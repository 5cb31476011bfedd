import { describe, expect, it } from "vitest";
import type { Step } from "../api/model";
import { attempt, step } from "../testing/fixtures";
import { failureHold } from "./hold";

const pending = (id: string, dependsOn: string[] = []): Step =>
  step(id, { status: "PENDING", dependsOn, attempts: [], logicalAttemptId: 0 });
const failed = (id: string, over: Partial<Step> = {}): Step =>
  step(id, { status: "FAILED", attempts: [attempt({ startedSeq: 3, endedSeq: 10 })], ...over });
const retried = (id: string): Step =>
  step(id, {
    status: "RUNNING",
    logicalAttemptId: 2,
    attempts: [
      attempt({ startedSeq: 3, endedSeq: 11 }),
      attempt({ logicalAttemptId: 2, status: "RUNNING", startedSeq: 15, endedSeq: null, error: null }),
    ],
  });

describe("failureHold", () => {
  it("holds steps that do not need the failed one, and says which do", () => {
    const hold = failureHold([failed("b"), pending("b2", ["b"]), pending("b3", ["b2"]), pending("free")]);
    expect([...hold.held]).toEqual(["b2", "b3", "free"]);
    expect([...hold.needs]).toEqual([
      ["b2", "b"],
      ["b3", "b"],
    ]);
    expect(hold.failed).toEqual(["b"]);
  });

  it("lets what a retried step releases pass while another failure stands", () => {
    const hold = failureHold([
      failed("a"),
      retried("b"),
      pending("a2", ["a"]),
      pending("b2", ["b"]),
      pending("both", ["a", "b"]),
    ]);
    expect([...hold.held]).toEqual(["a2", "both"]);
  });

  it("holds everything behind a retry that failed again", () => {
    const again = failed("a", {
      logicalAttemptId: 2,
      attempts: [
        attempt({ startedSeq: 3, endedSeq: 10 }),
        attempt({ logicalAttemptId: 2, startedSeq: 15, endedSeq: 16 }),
      ],
    });
    const hold = failureHold([again, pending("a2", ["a"]), pending("a3", ["a2"])]);
    expect([...hold.held]).toEqual(["a2", "a3"]);
  });

  it.each([
    ["nothing failed", [step("a"), pending("b", ["a"])]],
    ["a retry was accepted", [failed("a", { pendingRetry: true }), pending("b", ["a"])]],
    [
      "a pause ended the attempt",
      [
        failed("a", {
          attempts: [
            attempt({
              error: { code: "CANCELLED_BY_PAUSE", message: null, retryable: true, category: null, source: null },
            }),
          ],
        }),
        pending("b", ["a"]),
      ],
    ],
  ])("holds nothing when %s", (_, steps) => {
    expect(failureHold(steps).held.size).toBe(0);
  });
});
