import { expect, it } from "vitest";
import { header, RECEIPTS, signal, step, store } from "../testing/fixtures";
import { screen, show } from "../testing/render";
import { ReceiptStages, ReceiptTitle } from "./Receipt";

it.each([
  ["accepted", "Accepted applying…"],
  ["delivered", "Accepted Delivered after < 0.1 sapplying…"],
  ["applied", "Accepted Delivered after < 0.1 s Applied at seq 1291 after 0.4 s"],
  ["quiescent", "Accepted Delivered after < 0.1 s Applied at seq 1291 after 0.4 snothing is running since seq 1298"],
  ["noop", "Accepted No effect needed: attempt 3 was already running"],
  ["notApplied", "Accepted Not applied: the run had ended (seq 1290)"],
  ["rejected", "Rejected: Needs Engineer on shop / prod; you are Operator."],
])("says how far a receipt that is %s has come", async (name, words) => {
  const receipt = RECEIPTS[name] ?? signal();
  const { container } = await show(<ReceiptStages signal={receipt} />);
  expect(container.textContent?.replaceAll(" ", "")).toBe(words.replaceAll(" ", ""));
});

it("says that a slow receipt is safe, and leads to Health when it is stuck", async () => {
  await show(<ReceiptStages signal={signal()} slow stuck />);
  expect(screen.getByText(/^Accepted and durable/)).toBeDefined();
  expect(screen.getByRole("link").getAttribute("href")).toBe("/health");
});

it("names the action, the step, and the run unless it is the shown one", async () => {
  const { container, unmount } = await show(<ReceiptTitle signal={signal()} />);
  expect(container.textContent).toContain("Retry step stg_orders");
  expect(screen.getByRole("link").getAttribute("href")).toBe(`/runs/${signal().runId}`);
  unmount();
  await show(<ReceiptTitle signal={signal()} here />);
  expect(screen.queryByRole("link")).toBeNull();
});

it("names the step of the shown run by its name, and of another run by its id", async () => {
  const run = store(header(), {}, [step("stg_orders", { name: "Orders" })]);
  const { container, unmount } = await show(<ReceiptTitle signal={signal()} here />, { run });
  expect(container.textContent).toContain("Retry step Orders");
  unmount();
  const { container: other } = await show(<ReceiptTitle signal={signal()} />, { run });
  expect(other.textContent).toContain("Retry step stg_orders");
});
