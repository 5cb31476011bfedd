import { expect, it } from "vitest";
import { header, NOW, step, store } from "../testing/fixtures";
import { screen, show } from "../testing/render";
import { Blocked } from "../topology/blocked";
import { shapeOf } from "../topology/shape";
import { GraphNode } from "./GraphNode";

it("says how long a running step has run", async () => {
  const running = step("load", {
    status: "RUNNING",
    statusRaw: "RUNNING",
    startedAt: NOW - 95_000,
    completedAt: null,
    durationMs: null,
  });
  const shape = shapeOf([running]);
  await show(
    <GraphNode
      id="load"
      step={0}
      x={0}
      y={0}
      blocked={new Blocked(shape, () => running)}
      behind={false}
      held={false}
      chosen={false}
      tabStop
      choose={() => {}}
    />,
    { run: store(header(), {}, [running]) },
  );
  expect(screen.getByRole("button", { name: "load, 1 m 35 s, running" }).textContent).toContain("1 m 35 s");
});
