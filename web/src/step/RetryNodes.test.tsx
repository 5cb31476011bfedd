import { within } from "@testing-library/react";
import { expect, it } from "vitest";
import { header, RUN, step, store } from "../testing/fixtures";
import { of, screen, show } from "../testing/render";
import { RetryNodes } from "./RetryNodes";

const bad = { uniqueId: "model.shop.bad", name: "bad", why: "FAILED", because: null };
const report = { uniqueId: "model.shop.report", name: "report", why: "SKIPPED", because: "model.shop.bad" };
const parent = { uniqueId: "model.shop.raw", name: "raw", why: "TESTED_BY", because: "test.shop.unique_raw.1f" };

function answer({ action }: { action: { signal: { signal: { retryStep: { nodes: { mode: string } } } } } }) {
  const nodes = action.signal.signal.retryStep.nodes.mode === "FAILED" ? [bad, report] : [bad, parent, report];
  return {
    preview: {
      basedOnSeq: 9,
      outcome: "APPLY",
      code: null,
      reason: null,
      nodes: { attempt: 1, count: nodes.length, nodes },
    },
  };
}

async function open() {
  const marts = step("marts", { type: "DBT_RUN", status: "FAILED", changedSeq: 9 });
  const shown = await show(<RetryNodes runId={RUN} step={marts} failed={1} />, {
    run: store(header(), {}, [marts]),
    answers: { RetryNodes: answer },
  });
  await shown.user.click(screen.getByRole("button", { name: "Retry failed nodes (1)…" }));
  return { ...shown, dialog: within(await screen.findByRole("dialog")) };
}

it("names the nodes that would run, with the reason for each, for both modes", async () => {
  const { dialog, user, sent } = await open();
  expect(await dialog.findByText("was skipped because of bad")).toBeDefined();
  expect(dialog.getByText("2 of 2 nodes would run. Untick those that must not.")).toBeDefined();
  await user.click(dialog.getByRole("radio", { name: "Also the models whose tests failed" }));
  expect(await dialog.findByText(/is tested by unique_raw/)).toBeDefined();
  expect(dialog.getByRole("button", { name: "Retry 3 nodes" })).toBeDefined();
  expect(of(sent, "SignalRun")).toHaveLength(0);
});

it("sends a list of ids when a node is unticked, and nothing without nodes", async () => {
  const { dialog, user, sent } = await open();
  await user.click(await dialog.findByRole("checkbox", { name: /report/ }));
  await user.click(dialog.getByRole("checkbox", { name: /^bad/ }));
  expect(dialog.getByText("Tick at least one node.")).toBeDefined();
  await user.click(dialog.getByRole("checkbox", { name: /^bad/ }));
  await user.click(dialog.getByRole("button", { name: "Retry 1 node" }));
  const [input] = of(sent, "SignalRun");
  expect(input).toMatchObject({
    input: { expectedRunSeq: 9, signal: { retryStep: { stepId: "marts", nodes: { uniqueIds: ["model.shop.bad"] } } } },
  });
  expect(await screen.findByText("The retry is on its way.")).toBeDefined();
});
