import { expect, it } from "vitest";
import { screen, show } from "../testing/render";
import { LetterEvents } from "./LetterEvents";

const event = (runSeq: number, eventType: string, payload: unknown) => ({
  runSeq,
  eventType,
  stepId: "load",
  stepOrd: 0,
  logicalAttemptId: 1,
  engineAttemptId: 1,
  emittedBy: "worker",
  producer: "worker",
  emittedAt: "2026-11-21T03:12:07.123Z",
  persistedAt: "2026-11-21T03:12:07.123Z",
  payload,
});

it("says in sentences what a dead letter carried, and leaves out later events", async () => {
  const letter = {
    id: "d1",
    projectId: "shop",
    runId: "dafb2e61-0000-4000-8000-000000000000",
    fromSeq: 3,
    toSeq: 5,
    attempts: 10,
    cause: "connection refused",
    buriedAt: "2026-11-21T03:12:07.123Z",
    redrivenAt: null,
  };
  const events = [
    event(4, "StepStarted", {}),
    event(5, "StepFailed", { errorCode: "EXIT_STATUS", errorMessage: "relation raw_orders does not exist" }),
    event(6, "RunFailed", {}),
  ];
  await show(<LetterEvents letter={letter} onClose={() => {}} />, {
    answers: { LetterEvents: { run: { events: { edges: events.map((node) => ({ node })) } } } },
  });
  const list = await screen.findByRole("list", { name: "What the message says" });
  const said = [...list.children].map(({ textContent }) => textContent);
  expect(said).toHaveLength(2);
  expect(said[0]).toContain("load started");
  expect(said[1]).toContain("relation raw_orders does not exist");
});
