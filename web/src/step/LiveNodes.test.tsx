import { expect, it } from "vitest";
import { act } from "@testing-library/react";
import { header, NOW, RUN, SEQ, step, store } from "../testing/fixtures";
import { of, screen, show, vi } from "../testing/render";
import StepModels from "./StepModels";

const NODE = { resourceType: "model", durationMs: null, rowsAffected: null, error: null, skippedBy: null, attempt: 1 };

function page(seq: number, ...nodes: object[]) {
  const edges = nodes.map((node) => ({ node: { ...NODE, ...node } }));
  return { run: { step: { nodes: { seq, pageInfo: { hasNextPage: false, endCursor: null }, edges } } } };
}

const FRAME = {
  sync: "LIVE",
  reason: null,
  epoch: "1",
  opsRev: header().opsRev,
  asOf: NOW,
  lagMs: 140,
  reset: false,
  snapshot: null,
} as const;
const COUNTS = { total: 300, running: 1, success: 213, warn: 0, failed: 1, skipped: 0, unfinished: 0 };

it("lists the nodes of a running step, failed ones first, and reads only what changed since", async () => {
  const first = page(
    12,
    { uniqueId: "model.shop.orders", name: "orders", status: "RUNNING" },
    { uniqueId: "model.shop.raw", name: "raw", status: "SUCCESS", durationMs: 1_500, rowsAffected: 7 },
    { uniqueId: "model.shop.bad", name: "bad", status: "FAILED", error: "Binder Error: no such column" },
  );
  const second = page(
    15,
    { uniqueId: "model.shop.orders", name: "orders", status: "SUCCESS", durationMs: 90 },
    { uniqueId: "model.shop.report", name: "report", status: "SKIPPED", skippedBy: "model.shop.bad" },
  );
  const answer = ({ changedAfter }: { changedAfter: number }) => (changedAfter === 0 ? first : second);
  const marts = step("marts", { type: "DBT_RUN", status: "RUNNING", changedSeq: 12, nodeCounts: COUNTS });
  const run = store(header(), {}, [marts]);
  const { user, sent } = await show(
    <StepModels runId={RUN} stepId="marts" attempt={0} statuses={[]} sql={null} open={vi.fn()} />,
    { run, answers: { StepNodes: { run: { step: { dbtNodes: null } } }, LiveNodes: answer } },
  );
  expect(await screen.findByText("214 of 300 nodes, 1 failed")).toBeDefined();
  await screen.findByText("orders");
  expect(screen.getAllByRole("listitem").map((item) => item.dataset["node"])).toEqual([
    "model.shop.bad",
    "model.shop.orders",
    "model.shop.raw",
  ]);
  expect(screen.getByText("Binder Error: no such column")).toBeDefined();
  expect(screen.getByText("7 rows")).toBeDefined();
  await user.click(screen.getByRole("button", { name: "Failed 1" }));
  expect(screen.getAllByRole("listitem")).toHaveLength(1);
  await user.click(screen.getByRole("button", { name: "All" }));
  expect(of(sent, "LiveNodes")).toHaveLength(1);

  const to = SEQ + 3;
  act(() =>
    run.receive({
      ...FRAME,
      runSeq: to,
      headSeq: to,
      delta: { fromSeq: SEQ, toSeq: to, header: header({ runSeq: to }), steps: [{ ...marts, changedSeq: 15 }] },
    }),
  );
  expect(await screen.findByText("Skipped because bad failed.")).toBeDefined();
  expect(of(sent, "LiveNodes").at(-1)).toMatchObject({ changedAfter: 12, attempt: null });
  expect(screen.getAllByRole("listitem")).toHaveLength(4);
});
