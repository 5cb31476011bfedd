import { expect, it } from "vitest";
import { ApiError } from "../api/error";
import type { Signal } from "../api/model";
import { answered, inOrder, newPart, previewed, renewed, reviewed, sendEach, partState } from "./several";
import type { Preview } from "./usePreview";

const PLAN = ["a", "b", "c", "d"];

function preview(over: Partial<Preview> = {}): Preview {
  return {
    basedOnSeq: 7,
    outcome: "APPLY",
    code: null,
    reason: "it runs again",
    status: "RUNNING",
    changes: [],
    blocked: [],
    warnings: [],
    ...over,
  };
}

const RECEIPT = { signalId: "s" } as Signal;

it("retries in the order of the plan, and skips from its end", () => {
  const chosen = new Set(["d", "a", "c"]);
  expect(inOrder("RETRY_STEP", chosen, PLAN)).toEqual(["a", "c", "d"]);
  expect(inOrder("SKIP_STEP", chosen, PLAN)).toEqual(["d", "c", "a"]);
});

it("a step is sent only as it was read", () => {
  let one = newPart("a", 1);
  expect(partState(one)).toBe("asking");
  expect(partState({ ...one, unasked: new ApiError("gone") })).toBe("unasked");
  one = previewed(one, preview());
  expect(partState(one)).toBe("ready");
  one = previewed(one, preview({ basedOnSeq: 9 }));
  expect(partState(one)).toBe("ready");
  one = previewed(one, preview({ basedOnSeq: 9, outcome: "REFUSED", code: "STEP_NOT_FAILED" }));
  expect(partState(one)).toBe("changed");
  one = reviewed(one);
  expect(partState(one)).toBe("refused");
  const moved = answered(one, { receipt: null, failure: new ApiError("moved", { code: "RUN_MOVED" }) });
  expect([partState(moved), moved.at, moved.preview]).toEqual(["failed", 9, null]);
  expect(partState(reviewed(moved))).toBe("failed");
  expect(partState(reviewed(previewed(moved, preview())))).toBe("ready");
  expect(partState(previewed(renewed(one), preview()))).toBe("ready");
  expect(partState(reviewed({ ...one, receipt: RECEIPT }))).toBe("sent");
});

/** Sends a, b and c to a server that answers as told, and says what was tried with which signal. */
async function round(
  answers: Record<string, ApiError[]>,
  stop?: string,
): Promise<{ tried: string[]; came: Record<string, string>; waited: number[] }> {
  const tried: string[] = [];
  const came: Record<string, string> = {};
  const waited: number[] = [];
  const stopped = new AbortController();
  await sendEach(
    ["a", "b", "c"].map((id) => newPart(id, 1)),
    {
      send: ({ stepId }) => {
        tried.push(stepId);
        if (stepId === stop) stopped.abort();
        const refused = answers[stepId]?.shift();
        return refused ? Promise.reject(refused) : Promise.resolve(RECEIPT);
      },
      tell: (stepId, { receipt, failure }) => (came[stepId] = receipt ? "receipt" : (failure?.code ?? "")),
      wait: (ms) => Promise.resolve(void waited.push(ms)),
    },
    stopped.signal,
  );
  return { tried, came, waited };
}

it("26 reports a step that has moved, and sends the others", async () => {
  const { came } = await round({ b: [new ApiError("moved", { code: "RUN_MOVED" })] });
  expect(came).toEqual({ a: "receipt", b: "RUN_MOVED", c: "receipt" });
});

it("25 a step over the limit of signals is sent again, as late as the server says", async () => {
  const limited = new ApiError("too many", { code: "SIGNAL_RATE_LIMITED", retryAfterMs: 4_000 });
  const { tried, came, waited } = await round({ b: [limited, limited] });
  expect([tried, waited]).toEqual([
    ["a", "b", "b", "b", "c"],
    [4_000, 4_000],
  ]);
  expect(came).toEqual({ a: "receipt", b: "receipt", c: "receipt" });
});

it("25 waits before it sends a step again whose rate limit has just passed", async () => {
  const { tried, waited } = await round({
    a: [new ApiError("too many", { code: "SIGNAL_RATE_LIMITED", retryAfterMs: 0 })],
  });
  expect([tried, waited]).toEqual([["a", "a", "b", "c"], [100]]);
});

it("no answer ends the round: the next step would have none either", async () => {
  const { tried, came } = await round({ b: [new ApiError("dvt did not answer.", { code: "NETWORK" })] });
  expect([tried, came]).toEqual([["a", "b"], { a: "receipt", b: "NETWORK" }]);
});

it("stops when it is aborted, and keeps the receipts", async () => {
  const { tried, came } = await round({}, "b");
  expect([tried, came]).toEqual([["a", "b"], { a: "receipt", b: "receipt" }]);
});
