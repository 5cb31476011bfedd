import { expect, it } from "vitest";
import { signal } from "../testing/fixtures";
import { screen, show } from "../testing/render";
import { receipts } from "./context";
import { Tray } from "./Tray";

it("shows moving and failed receipts, the latter until they are dismissed, and counts the rest", async () => {
  const now = Date.now();
  receipts.receive(
    signal({
      signalId: "done",
      actor: "tray",
      application: "APPLIED",
      appliedAt: now - 60_000,
      receivedAt: now - 61_000,
    }),
    signal({ signalId: "moving", actor: "tray", type: "PAUSE", stepId: null, receivedAt: now - 1_000 }),
    signal({
      signalId: "bad",
      actor: "tray",
      type: "SKIP_STEP",
      decision: "REJECTED",
      rejection: { code: "FORBIDDEN", message: "no" },
      receivedAt: now,
    }),
    signal({ signalId: "bulk.1", actor: "tray", receivedAt: now }),
    signal({ signalId: "other", actor: "ben", receivedAt: now }),
  );
  const { user } = await show(<Tray />, { viewer: { principal: "tray" } });
  expect(screen.getByRole("status").textContent).toContain("PAUSE");
  expect(screen.getByRole("alert").textContent).toContain("SKIP_STEP");
  expect(screen.getByRole("button", { name: "Receipts 3" }).getAttribute("aria-pressed")).toBe("false");
  await user.click(screen.getByRole("button", { name: "Dismiss" }));
  expect(screen.queryByRole("alert")).toBeNull();
  await user.click(screen.getByRole("button", { name: "Receipts 3" }));
  expect(screen.getByRole("region", { name: "Receipts" }).children, "all own receipts").toHaveLength(3);
});
