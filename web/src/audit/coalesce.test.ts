import { expect, it } from "vitest";
import type { AuditFieldsFragment } from "../api/gen/graphql";
import { coalesce } from "./coalesce";

function entry(no: number, over: Partial<NonNullable<AuditFieldsFragment["row"]>> = {}): AuditFieldsFragment {
  const row = {
    at: `2026-11-21T03:08:${no}Z`,
    actor: "vic",
    action: "RETRY_STEP",
    runId: "7f3a",
    signalId: "",
    outcome: "DENIED",
    code: "FORBIDDEN",
    reason: "",
    requestId: `r${no}`,
    detail: "",
    tenantId: "acme",
    format: 2,
    credential: "",
    address: "",
    via: "",
    object: "",
    digest: "",
  };
  return { no, id: `id${no}`, hash: "", row: { ...row, ...over } };
}

it("puts like refusals that follow each other into one line, and nothing else", () => {
  const lines = coalesce([
    entry(17),
    entry(16),
    entry(15),
    entry(14, { actor: "ben" }),
    entry(13),
    entry(12, { outcome: "ACCEPTED" }),
    entry(11, { outcome: "ACCEPTED" }),
    { no: 10, id: "gone", hash: "", row: null },
  ]);
  expect(lines.map(({ entry, count, firstNo }) => [entry.no, count, firstNo])).toEqual([
    [17, 3, 15],
    [14, 1, 14],
    [13, 1, 13],
    [12, 1, 12],
    [11, 1, 11],
    [10, 1, 10],
  ]);
});
