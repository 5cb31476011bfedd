import { expect, it } from "vitest";
import type { AuditFieldsFragment } from "../api/gen/graphql";
import { Table } from "../ui/Table";
import { screen, show } from "../testing/render";
import { auditColumns } from "./columns";

const ROW = {
  at: "2026-11-28T12:19:13Z",
  actor: "ana",
  action: "PAUSE",
  runId: "a024dfc0-1111-4b42-b04c-93f326df0039",
  signalId: "s1",
  outcome: "ACCEPTED",
  code: "",
  reason: "maintenance",
  requestId: "",
  detail: "",
  credential: "",
  address: "",
  via: "",
  object: "",
  digest: "",
} as NonNullable<AuditFieldsFragment["row"]>;

async function line(change: Partial<typeof ROW>): Promise<HTMLElement> {
  const entry = { no: 7, id: "7", hash: "h", row: { ...ROW, ...change } } as AuditFieldsFragment;
  await show(
    <Table label="Audit" columns={auditColumns} rows={[{ entry, count: 1, firstNo: 7 }]} rowKey={() => "7"} />,
  );
  const [, row] = screen.getAllByRole("row");
  if (!row) throw new Error("no row");
  return row;
}

it("leads from a person to their records, and from an accepted signal to its moment", async () => {
  await line({});
  expect(screen.getByRole("link", { name: "ana: only their records" }).getAttribute("href")).toContain("actor=ana");
  expect(screen.getByRole("link", { name: "Run a024dfc0 at that moment" })).toBeDefined();
});

it("says in words why a request was refused, and offers no moment that does not exist", async () => {
  const row = await line({ outcome: "DENIED", code: "FORBIDDEN" });
  expect(row.textContent).toContain("refused: no permission");
  expect(row.textContent).not.toContain("FORBIDDEN");
  expect(screen.queryByRole("link", { name: /at that moment/ })).toBeNull();
});

it("keeps a code that has no words", async () => {
  expect((await line({ outcome: "REJECTED", code: "NEW_CODE" })).textContent).toContain("NEW_CODE");
});

it("folds the reason of an alert, which has many lines, and shows all of it when it is opened", async () => {
  const reason = `The run was paused, and 5 m later it still runs a step. ${"Resume the run, or cancel it. ".repeat(3)}`;
  const row = await line({ action: "SWEEP", outcome: "ESCALATED", code: "PAUSE_DRAIN_TIMEOUT", reason });
  expect(row.querySelector("details summary")?.textContent).toMatch(/^The run was paused.{40,80}…$/);
  expect(row.querySelector("details")?.textContent).toContain(reason);
});

it("does not call a breaker that closed refused", async () => {
  const row = await line({ action: "BREAKER", outcome: "CLOSED", code: "ENGINE_DEGRADED" });
  expect(row.textContent).toContain("✓ Closed");
  expect(row.textContent).not.toMatch(/refused/i);
});
