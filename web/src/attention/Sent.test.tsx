import { expect, it } from "vitest";
import { receipts } from "../receipts/context";
import { RECEIPTS, RUN } from "../testing/fixtures";
import { screen, show } from "../testing/render";
import { Sent } from "./Sent";

it("says what was sent, and how far its receipt has come", async () => {
  const [signal] = Object.values(RECEIPTS);
  if (!signal) throw new Error("the fixture has no receipt");
  receipts.receive({ ...signal, runId: RUN, signalId: "sent-here", decision: "ACCEPTED", application: "APPLIED" });
  const sent = { action: "RETRY_STEP", signalId: "sent-here", decision: null, attempt: 1 } as const;
  const { unmount } = await show(<Sent runId={RUN} attempt={1} sent={sent} />);
  expect(screen.getByRole("status").textContent).toMatch(/^Retry step: sent.*Applied/);
  expect(screen.getByRole("status").textContent).not.toContain("failed again");
  unmount();
  await show(<Sent runId={RUN} attempt={2} sent={sent} />);
  expect(screen.getByRole("status").textContent).toMatch(/Applied.*→ it failed again$/);
});

it("says what was decided, which has no receipt", async () => {
  await show(
    <Sent runId={RUN} attempt={null} sent={{ action: "APPROVE", signalId: null, decision: "REJECT", attempt: null }} />,
  );
  expect(screen.getByRole("status").textContent).toBe("You have rejected the run.");
});
