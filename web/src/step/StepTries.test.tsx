import { expect, it } from "vitest";
import { RUN } from "../testing/fixtures";
import { of, screen, show } from "../testing/render";
import { StepTries } from "./StepTries";

const NOTHING = {
  worker: null,
  startedAt: null,
  endedAt: null,
  lastHeartbeatAt: null,
  errorCode: null,
  exitStatus: null,
  signal: null,
  logBytes: null,
  stack: null,
};

it("shows how each try of the platform ended, and what became of the compensation", async () => {
  const tries = [
    {
      ...NOTHING,
      engineAttemptId: 1,
      outcome: "FAILED",
      worker: "host/7",
      errorCode: "EXIT_STATUS",
      exitStatus: 3,
      logBytes: 2048,
      stack: "goroutine 7",
    },
    { ...NOTHING, engineAttemptId: 2, outcome: "LOST" },
    { ...NOTHING, engineAttemptId: 3, outcome: "FAILED", signal: "SIGKILL" },
  ];
  const compensation = {
    compensated: false,
    attempts: 3,
    endedAt: "2026-11-28T09:00:00Z",
    errorCode: "HTTP_STATUS",
    errorMessage: "503",
  };
  const { sent } = await show(<StepTries runId={RUN} stepId="load" attempt={2} />, {
    answers: { StepEvidence: { run: { step: { evidence: { tries, compensation } } } } },
  });
  const rows = (await screen.findAllByRole("row")).map(({ textContent }) => textContent);
  expect(of(sent, "StepEvidence")[0]).toMatchObject({ stepId: "load", attempt: 2 });
  expect(rows[1]).toMatch(/^try 1Failure EXIT_STATUS3.*host\/7$/);
  expect(rows[2]).toBe("try 2The loss of its worker");
  expect(rows[3]).toBe("try 3FailureSIGKILL");
  expect(screen.getByLabelText("Stack of try 1").textContent).toBe("goroutine 7");
  expect(screen.getByText(/effects of the step are not undone, in 3 tries/)).toBeDefined();
  expect(screen.getByText(/HTTP_STATUS 503/)).toBeDefined();
});
