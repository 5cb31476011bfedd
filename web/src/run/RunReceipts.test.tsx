import { expect, it } from "vitest";
import { receipts } from "../receipts/context";
import { attempt, header, RUN, signal, step, store } from "../testing/fixtures";
import { screen, show, vi } from "../testing/render";
import RunReceipts from "./RunReceipts";

function words(id: string): string {
  return document.querySelector(`[data-signal="${id}"]`)?.textContent ?? "";
}

it("lists the receipts of this run, with links to the events of the log", async () => {
  receipts.receive(
    signal({
      signalId: "r-1",
      actor: "ben",
      application: "APPLIED",
      acceptedSeq: 1289,
      appliedSeq: 1291,
      appliedAt: 1,
    }),
    signal({ signalId: "r-2", actor: "ben", runId: "another" }),
  );
  const { user, search } = await show(<RunReceipts runId={RUN} />);
  const item = document.querySelector('[data-signal="r-1"]');
  expect(item?.textContent).toContain("by ben “the file is there now”");
  expect(document.querySelector('[data-signal="r-2"]'), "of another run").toBeNull();
  const [applied] = screen.getAllByRole("link", { name: "seq 1291" });
  if (!applied) throw new Error("the receipt has no link to its effect");
  await user.click(applied);
  await vi.waitFor(() => expect(search()).toMatchObject({ view: "events", seq: 1291 }));
});

it("says what became of each retry, also when a later one came after it", async () => {
  const at = Date.now();
  const tried = (logicalAttemptId: number, startedSeq: number, status: "FAILED" | "SUCCESS") =>
    attempt({ logicalAttemptId, startedSeq, status, statusRaw: status, startedAt: at, completedAt: at + 200 });
  const load = step("load", {
    name: "Load orders",
    changedSeq: 40,
    attempts: [tried(1, 2, "FAILED"), tried(2, 21, "FAILED"), tried(3, 31, "SUCCESS")],
  });
  const applied = { stepId: "load", application: "APPLIED", runId: "retried" } as const;
  receipts.receive(
    signal({ ...applied, signalId: "first", appliedSeq: 20 }),
    signal({ ...applied, signalId: "second", appliedSeq: 30 }),
  );
  await show(<RunReceipts runId="retried" />, { run: store(header({ runId: "retried", runSeq: 40 }), {}, [load]) });
  expect(words("first")).toContain("→ failed again after 0.2 s");
  expect(words("second")).toContain("→ succeeded after 0.2 s");
  expect(words("second")).toContain("Load orders");
});
