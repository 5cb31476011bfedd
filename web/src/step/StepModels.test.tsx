import { expect, it } from "vitest";
import { ANSWERS, header, RUN, step, store } from "../testing/fixtures";
import { of, screen, show, vi } from "../testing/render";
import StepModels from "./StepModels";
import type { StepMove } from "./stepPlace";

const NODE = {
  resourceType: "model",
  executionTimeMs: 100,
  failures: null,
  rowsAffected: null,
  compiledSql: null,
  compiledSqlCut: false,
};

function node(name: string, status: string, message: string | null) {
  return { node: { ...NODE, uniqueId: `model.shop.${name}`, name, status, message } };
}

it("lists dbt's nodes with their message and SQL, and filters by status on the server", async () => {
  const open = vi.fn<(to: StepMove) => void>();
  const { user, sent } = await show(
    <StepModels runId={RUN} stepId="stg_orders" attempt={2} statuses={["fail"]} sql={null} open={open} />,
    { answers: { StepNodes: { run: ANSWERS.data["run"] } } },
  );
  expect(await screen.findByText("not_null_stg_orders_id")).toBeDefined();
  expect(of(sent, "StepNodes")[0]).toMatchObject({ stepId: "stg_orders", attempt: 2, status: ["fail"], first: 50 });
  expect(screen.getByRole("button", { name: "Failed 3", pressed: true })).toBeDefined();
  expect(screen.getByText(/^Got 3 results/)).toBeDefined();
  expect(screen.getByLabelText("Compiled SQL of not_null_stg_orders_id").textContent).toContain("where id is null");
  await user.click(screen.getByRole("button", { name: "Passed 12" }));
  expect(open).toHaveBeenLastCalledWith({ nodes: ["pass"], sql: undefined });
  await user.click(screen.getByRole("button", { name: "All" }));
  expect(open).toHaveBeenLastCalledWith({ nodes: undefined, sql: undefined });
});

it("shows the rows that the step counted, and what the manifest says of lineage, file and materialization", async () => {
  const artifact = {
    kind: "dbt-manifest",
    uri: `artifact:acme/${RUN}/marts/1/1/manifest.json`,
    sha256: null,
    sizeBytes: 9,
  };
  const marts = step("marts", { type: "DBT_RUN", artifacts: [artifact], result: { rows: { orders: 120 } } });
  const nodes = {
    total: 3,
    byStatus: [],
    pageInfo: { hasNextPage: false, endCursor: null },
    edges: [
      node("orders", "success", "OK"),
      node("report", "skipped", null),
      node("customers", "error", "Runtime Error"),
    ],
  };
  const manifest = {
    nodes: {
      "model.shop.orders": {
        depends_on: { nodes: ["model.shop.stg_orders"] },
        config: { materialized: "table" },
        original_file_path: "models/orders.sql",
      },
      "model.shop.customers": { depends_on: { nodes: ["model.shop.orders"] } },
      "test.shop.unique_orders.1": { depends_on: { nodes: ["model.shop.orders"] } },
    },
  };
  const { container } = await show(
    <StepModels runId={RUN} stepId="marts" attempt={1} statuses={[]} sql={null} open={() => {}} />,
    {
      run: store(header(), {}, [marts]),
      answers: {
        StepNodes: { run: { step: { dbtNodes: nodes } } },
        [`/artifacts/${RUN}/marts/1/1/manifest.json`]: manifest,
      },
    },
  );
  await vi.waitFor(() => expect(screen.getAllByTestId("lineage")).toHaveLength(2));
  const entries = [...container.querySelectorAll("[data-node]")].map(({ textContent }) => textContent);
  expect(entries[0], "the failed one is first").toContain("customers");
  expect(entries[0]).toContain("reads orders");
  expect(entries[1]).toContain("dbt did not run it, because something that it reads failed.");
  expect(entries[2]).toContain("120 rows");
  expect(entries[2]).toContain("model · table · models/orders.sql");
  expect(entries[2]).toContain("reads stg_orders · read by customers, 1 test");
  expect(entries[2], "OK says nothing").not.toContain("OK");
});
