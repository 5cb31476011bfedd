import { expect, it } from "vitest";
import { waitsInWords } from "./useWaits";

const queued = { runId: "q", position: 1, waitsFor: "PLACE", slots: { active: 3, max: 3 } } as const;
const manual = { kind: "MANUAL_TASK", runId: "m", deadline: null, actions: [], whoCould: ["dev-admin"] } as const;

function connection(nodes: object[]): object {
  return { edges: nodes.map((node) => ({ node })) };
}

function words(entries: object[], items: object[]): string[] {
  return [...waitsInWords({ queue: connection(entries), attention: connection(items) } as never).values()];
}

it("says what a run waits for: a slot, the viewer, or others", () => {
  expect(words([queued, { ...queued, runId: "r", position: 2, waitsFor: "TURN", slots: null }], [])).toEqual([
    "Place 1: all 3 slots in use",
    "Place 2: Other runs of this project are ahead of it",
  ]);
  expect(
    words(
      [],
      [
        manual,
        { ...manual, runId: "a", kind: "APPROVAL", actions: ["APPROVE"] },
        { ...manual, runId: "b", kind: "APPROVAL", whoCould: [] },
        { ...manual, runId: "c", kind: "LATE" },
        { ...manual, runId: "d", kind: "APPROVAL", stuck: true },
        { ...manual, runId: "e", kind: "APPROVAL", actions: ["APPROVE"], whoCould: [], stuck: true },
      ],
    ),
  ).toEqual([
    "Waits for dev-admin",
    "Waits for you",
    "Nobody can approve it: change the policy, or cancel the run.",
    "Only dev-admin can approve, which is not enough: change the policy, or cancel the run.",
    "Only you can approve, which is not enough: change the policy, or cancel the run.",
  ]);
});
