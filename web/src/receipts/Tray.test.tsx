import { act, within } from "@testing-library/react";
import { expect, it } from "vitest";
import { header, RUN, signal, step, store } from "../testing/fixtures";
import { screen, show, vi } from "../testing/render";
import { receipts } from "./context";
import { doneLog } from "../session/done";
import { DoneLine } from "./DoneLine";
import { ReceiptLine } from "./ReceiptLine";
import { Tray } from "./Tray";

const BULK = {
  id: "bulk-1",
  state: "RUNNING",
  action: "RERUN",
  type: "UNKNOWN",
  typeRaw: "RERUN",
  stepId: null,
  payload: null,
  reason: "the source is back",
  createdAt: new Date().toISOString(),
  finishedAt: null,
  stoppedAt: null,
  pacedCode: null,
  pacedUntil: null,
  counts: { total: 20, waiting: 15, accepted: 4, rejected: 0, refused: 1, notSent: 0 },
};
const BULKS = { Bulks: { bulks: { edges: [{ node: BULK }], pageInfo: { hasNextPage: false, endCursor: null } } } };

function receive(actor: string): void {
  const now = Date.now();
  receipts.receive(
    signal({ signalId: `${actor}-done`, actor, application: "APPLIED", appliedAt: now, receivedAt: now - 1_000 }),
    signal({ signalId: `${actor}-moving`, actor, type: "PAUSE", stepId: null, receivedAt: now - 2_000 }),
    signal({
      signalId: `${actor}-bad`,
      actor,
      type: "SKIP_STEP",
      decision: "REJECTED",
      rejection: { code: "FORBIDDEN", message: "no" },
      runId: "another-run",
      receivedAt: now - 60_000,
    }),
    signal({ signalId: "bulk.1", actor, receivedAt: now }),
    signal({ signalId: "other", actor: "ben", receivedAt: now }),
  );
}

it("lies over nothing until it is opened: then it lists receipts, a bulk as one entry, and what was done", async () => {
  receive("tray");
  doneLog.add({ topic: "freeze", what: "Froze the tenant", by: "tray", at: Date.now(), audit: null });
  const { user } = await show(<Tray />, { viewer: { principal: "tray" }, answers: BULKS });
  const button = await screen.findByRole("button", { name: "Receipts 5 new 1 refused" });
  expect(screen.queryByRole("region", { name: "Receipts" })).toBeNull();
  expect(screen.queryByRole("alert"), "a refused signal of another run").toBeNull();
  await user.click(button);
  const tray = within(screen.getByRole("region", { name: "Receipts" }));
  const entries = tray.getAllByRole("listitem").map(({ textContent }) => textContent);
  expect(entries).toHaveLength(5);
  expect(entries[0], "the refused one is first").toContain("Skip step");
  expect(entries.join()).toContain("Rerun 20 runs");
  expect(entries.join()).toContain("5 of 20 sent");
  expect(entries.join()).toContain("Froze the tenant");
  expect(tray.queryByText(/Retry step.*bulk/)).toBeNull();
  await user.click(tray.getByRole("button", { name: "Dismiss" }));
  expect(screen.getByRole("button", { name: "Receipts" }), "what was read is not new").toBeDefined();
  expect(tray.getAllByRole("listitem"), "it stays in the list").toHaveLength(5);
});

it("says what followed a receipt, and does not show a retry that failed again as a success", async () => {
  const at = Date.now();
  receipts.receive(
    signal({
      signalId: "followed",
      actor: "followed",
      application: "APPLIED",
      appliedSeq: 20,
      appliedAt: at,
      receivedAt: at,
    }),
  );
  const attempt = { status: "FAILED", startedAt: "2026-11-21T03:00:00Z", completedAt: "2026-11-21T03:00:01Z" };
  const step = { name: "Stage the orders", changedSeq: 22, ...attempt, attempts: [{ ...attempt, startedSeq: 21 }] };
  const run = { runSeq: 22, status: "RUNNING", substatus: null, plan: { planId: "nightly" }, pause: null, step };
  const { user } = await show(<Tray />, {
    viewer: { principal: "followed" },
    answers: { ...BULKS, SignalSequel: { run } },
  });
  await user.click(await screen.findByRole("button", { name: /^Receipts/ }));
  const entry = await screen.findByText("→ failed again after 1.0 s");
  expect(entry.dataset["tone"]).toBe("failed");
  expect(screen.getByText(/^Applied at seq 20/).dataset["tone"]).toBe("skipped");
  expect(screen.getByText("Stage the orders")).toBeDefined();
  expect(screen.getByRole("link", { name: /^nightly / })).toBeDefined();
});

it("closes by Esc, and only that", async () => {
  const other = vi.fn<() => void>();
  document.addEventListener("keydown", other);
  const { user } = await show(<Tray />, { viewer: { principal: "esc" }, answers: BULKS });
  await user.click(screen.getByRole("button", { name: /^Receipts/ }));
  await user.keyboard("{Escape}");
  expect(screen.queryByRole("region", { name: "Receipts" })).toBeNull();
  expect(other, "Esc closes one thing").not.toHaveBeenCalled();
  document.removeEventListener("keydown", other);
});

it("closes when one of its links is followed, because it would lie over the page", async () => {
  doneLog.add({
    topic: "policy",
    what: "Saved the policy",
    effect: { page: "policy" },
    versions: [3, 4],
    by: "link",
    at: Date.now(),
    audit: null,
  });
  const { user } = await show(<Tray />, { viewer: { principal: "link" }, answers: BULKS });
  await user.click(screen.getByRole("button", { name: /^Receipts/ }));
  const tray = within(screen.getByRole("region", { name: "Receipts" }));
  expect(tray.getByText(/Saved the policy: version 3 → version 4/)).toBeDefined();
  await user.click(tray.getByRole("link", { name: "Policy" }));
  await vi.waitFor(() => expect(screen.queryByRole("region", { name: "Receipts" })).toBeNull());
});

it("shows the newest receipt of the run in its place, up to what followed", async () => {
  const now = Date.now();
  const failed = step("stg_orders", {
    status: "FAILED",
    changedSeq: 1295,
    startedAt: now - 1_000,
    completedAt: now - 800,
  });
  const run = store(header({ runSeq: 1295 }), {}, [failed]);
  receipts.receive(signal({ signalId: "here", actor: "here", receivedAt: now - 2_000 }));
  await show(<ReceiptLine runId={RUN} />, { viewer: { principal: "here" }, run });
  const line = screen.getByRole("status");
  expect(line.textContent).toContain("Accepted");
  expect(line.textContent).not.toContain("→");
  act(() =>
    receipts.receive(
      signal({
        signalId: "here",
        actor: "here",
        application: "APPLIED",
        appliedSeq: 1291,
        appliedAt: now - 1_500,
        receivedAt: now - 2_000,
      }),
    ),
  );
  expect(screen.getByTestId("followed").textContent).toBe("→ failed again after 0.2 s");
});

it("shows nothing of other runs in the place of a run", async () => {
  receive("elsewhere");
  await show(
    <>
      <ReceiptLine runId="a-run-without-signals" />
      <p>page</p>
    </>,
    { viewer: { principal: "elsewhere" } },
  );
  expect(document.querySelector("[data-receipt]")).toBeNull();
});

it("says under a button what was done, by whom, with a link to the audit for those who may read it", async () => {
  doneLog.add({
    topic: "policy",
    what: "Saved the policy",
    by: "ana",
    at: Date.now(),
    audit: { action: "SET_POLICY" },
  });
  const { unmount } = await show(<DoneLine topic="policy" />, { viewer: { actions: new Set(["READ_AUDIT"]) } });
  expect(screen.getByRole("status").textContent).toMatch(/Saved the policy.*by ana/);
  expect(screen.getByRole("link").getAttribute("href")).toContain("/audit?");
  unmount();
  await show(<DoneLine topic="policy" />);
  expect(screen.queryByRole("link")).toBeNull();
});
