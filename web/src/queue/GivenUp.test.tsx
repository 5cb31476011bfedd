import { expect, it } from "vitest";
import { RUN } from "../testing/fixtures";
import { screen, show } from "../testing/render";
import { GivenUp } from "./GivenUp";

const node = (runId: string, code: string) => ({
  runId,
  projectId: "shop",
  environmentId: "prod",
  status: "FAILED",
  statusRaw: "FAILED",
  substatus: null,
  plan: { planId: "nightly", planVersion: "1.4.2" },
  createdAt: "2026-11-21T03:00:00Z",
  startedAt: null,
  completedAt: "2026-11-21T04:00:00Z",
  rootCause: { stepId: null, code, category: "QUOTA", message: "it waited too long", firstSeq: 2, retryable: false },
  pause: null,
  stepCounts: {},
});
const answers = (...nodes: object[]) => ({ GivenUp: { runs: { edges: nodes.map((run) => ({ node: run })) } } });

it("names the runs that the queue gave up, and no other failure", async () => {
  await show(<GivenUp />, { answers: answers(node(RUN, "QUEUE_TTL_EXCEEDED"), node("r-other", "EXIT_STATUS")) });
  await screen.findByRole("heading", { name: "Given up in the last 24 hours" });
  expect(screen.getAllByRole("link").map((link) => link.getAttribute("href"))).toEqual([`/runs/${RUN}`]);
});
