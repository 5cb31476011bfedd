import { expect, it } from "vitest";
import { receipts } from "../receipts/context";
import { RUN, signal } from "../testing/fixtures";
import { screen, show, vi } from "../testing/render";
import RunReceipts from "./RunReceipts";

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
  await vi.waitFor(() => expect(search()).toMatchObject({ view: "events", seq: 1291 }), { timeout: 5000 });
});
